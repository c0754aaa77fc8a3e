"""The type of a function's result, by its annotation: writes results as JSON and reads them back."""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import to_json

from treadle.errors import BadValue
from treadle.tasks.rereading import (
    altered,
    bytes_in,
    is_altered,
    is_sure,
    listed,
    may_lose,
    names,
    reads_less,
    takes_both,
)
from treadle.values import asked, brief, check_no_secret, clash, plain
from treadle.wire.values import fault

_AS_ARGUMENTS = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants")
"""As for arguments: bytes are sent in base64, and non-finite numbers are refused."""

_UNREAD = object()


class Returned:
    """The type of a function's result, given by its annotation."""

    __slots__ = ("_annotation", "_is_sure", "_may_hide", "_may_lose", "_reads", "_reads_less", "_takes_both")

    def __init__(self, annotation: Any = Any) -> None:
        self._annotation = annotation = listed(annotation)
        self._reads: TypeAdapter[list[Any]] | None = None
        self._is_sure = is_sure(annotation)
        self._may_hide = not self._is_sure or names(annotation, Any)
        """Whether it may contain a secret."""
        self._takes_both: bool | None = False if self._is_sure else None
        """Whether it may hold bytes or another type in one place; None until first checked."""
        self._may_lose = False
        """Whether it may be read back as a different value."""
        self._reads_less = False
        """Whether it can't be read back in the form in which it is usually written."""

    def write(self, value: Any, name: str) -> Any:
        """Return a result as plain JSON data. Raises `BadValue`, which names the place within `name`.

        That includes bytes that would be read back as text and text that would be read back as bytes, secrets, of which
        nothing would be kept, and values that would be read back as different ones.
        """
        if self._takes_both is None:
            schema = self._reader().core_schema
            self._takes_both, self._reads_less = takes_both(schema), reads_less(schema)
            self._may_lose = may_lose(schema)
        data = self._plain(value, name, round_trip=self._reads_less)
        if self._may_hide or isinstance(value, BaseModel):
            check_no_secret(value, data, name)
        if self._takes_both and bytes_in(value) != bytes_in(self.read(data)):
            raise BadValue(
                f"{name} is annotated as bytes or str, which JSON can't tell apart, and"
                f" {brief(value)} would be read back as the other: return one of them, or a dict that says which it is"
            )
        if self._may_lose and self._is_lost(value, data, name):
            data = self._typed(value)
            if data is None or self._is_lost(value, data, name):
                raise BadValue(f"{name} {altered(value, self.read(data))}")
        return data

    def _plain(self, value: Any, name: str, *, round_trip: bool) -> Any:
        """Return a value as plain JSON data, or, if that fails, as its type serialises it."""
        try:
            return plain(value, name, round_trip=round_trip)
        except BadValue:
            if self._is_sure or (data := self._typed(value)) is None:
                raise
            return data

    def _typed(self, value: Any) -> Any:
        """Return a value as its type serialises it; None if that can't be done."""
        dump = self._reader().dump_python
        data = asked(lambda: dump([value], mode="json", by_alias=True, round_trip=True, warnings="error")[0], _none)
        return None if fault(data) is not None or clash(value, data) is not None else data

    def _is_lost(self, value: Any, data: Any, name: str) -> bool:
        """Return whether `data`, written from a value of the type, is read back as a different value, or not at all."""
        again = self._again(data, otherwise=_UNREAD)
        if again is _UNREAD:
            return asked(lambda: bool(self._reader().validate_python([value])), lambda _: False)
        # Without a model's computed fields, which may differ each time.
        written, rewritten = (self._plain(one, name, round_trip=True) for one in (value, again))
        return is_altered(value, again, written, rewritten)

    def read(self, data: Any) -> Any:
        """Return a result, given as JSON, as a value of the function's return type; unchanged if it doesn't fit."""
        if data is None:
            return None
        # Nobody checked the annotation when the function returned.
        return self._again(data, otherwise=data)

    def _again(self, data: Any, *, otherwise: Any) -> Any:
        return asked(lambda: self._reader().validate_json(to_json([data]))[0], lambda _: otherwise)

    def _reader(self) -> TypeAdapter[list[Any]]:
        """Return the reader of a list with one result, because a class on its own accepts no external configuration.

        Not of `Optional[…]`, which caches `str | Path` and `Path | str` as the same type: whichever it saw first.
        """
        if self._reads is None:
            try:
                self._reads = TypeAdapter(list[self._annotation], config=_AS_ARGUMENTS)  # type: ignore[name-defined]
            except Exception:  # noqa: BLE001 - anything that its types raise; the result's type is not essential
                self._reads = TypeAdapter(list[Any])
        return self._reads


def _none(_: BaseException) -> None:
    """Return None."""
