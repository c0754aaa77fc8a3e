"""Values on their way to the server: made plain JSON data, and checked by the wire's rules before they are sent."""

import dataclasses
import inspect
import math
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic_core import to_json, to_jsonable_python

from treadle.errors import BadValue, InvalidArguments
from treadle.wire.fields import LONGEST_OUTPUT
from treadle.wire.reasons import reason
from treadle.wire.values import MOST_LEVELS, NO_JSON, REQUEST_LEVELS, TOO_DEEP, Fault, below, fault

T = TypeVar("T")

_SUSPECT = (b"\\u0000", b"NaN", b"Infinity")
"""Bytes that are in JSON with a bad value, and rarely in other JSON."""

MASK = b'"**********"'
"""A secret in JSON."""

_ENDLESS = ("depth exceeded", "Circular reference")
"""Parts of pydantic's errors for too many levels, and for values that contain themselves."""

_BRIEF = 100
"""How many characters of a value are shown."""

_DIGITS_PER_BIT = math.log10(2)


def asked(ask: Callable[[], T], otherwise: Callable[[BaseException], T]) -> T:
    """Return the result of `ask`, which calls into a user's class, or of `otherwise` for whatever that raised.

    A class may define how it is written, read or named, and so raise anything, even SystemExit: none of it may end a
    worker. A Ctrl-C at that very moment is not from the class, and is passed on where Python raises it as an exception.
    """
    try:
        return ask()
    except BaseException as error:
        if issubclass(type(error), KeyboardInterrupt) and _interrupts_raise():
            raise
        return otherwise(error)


def _interrupts_raise() -> bool:
    """Return whether a Ctrl-C raises in this thread: only in the main one, and not if a worker handles it."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def plain(value: Any, name: str, levels: int = MOST_LEVELS, *, round_trip: bool = False) -> Any:
    """Return a value as plain JSON data, bytes in base64. Raises `BadValue`, which names the place within `name`.

    With `round_trip` models are written so that they can be read back: without computed fields, and with JSON in them
    as text.
    """

    def refuse(error: BaseException) -> NoReturn:
        raise BadValue(str(_unplain(value, name, error))) from None

    data = asked(lambda: to_jsonable_python(value, bytes_mode="base64", round_trip=round_trip), refuse)
    if (found := fault(data, name, levels)) is not None:
        raise BadValue(str(found))
    if (found := clash(value, data)) is not None:
        raise BadValue(str(found.within(name)))
    return data


def clash(value: Any, data: Any) -> Fault | None:
    """Return where two keys of a dict became one text in `data`, the value's JSON, which has lost an entry then.

    A value that is already plain equals its JSON, and comparing them takes a thirtieth of the time of writing it.
    """
    if type(value) in _LEAVES:
        return None
    return asked(lambda: _place_of_clash(value) if value != data and _clashes(value) else None, lambda _: None)


def _clashes(value: Any) -> bool:
    level, seen = [value], set[int]()
    for _ in range(REQUEST_LEVELS):
        inside: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is list or kind is tuple:
                inside += item
            elif _is_clash(item):
                return True
            elif id(item) not in seen:
                # A model may refer to its parent, in a field that is not written.
                seen.add(id(item))
                inside += [one for _, one in members(item)]
        level = [one for one in inside if type(one) not in _LEAVES]
    return False


_LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types that most values consist of, and that contain nothing."""


def _is_clash(value: Any) -> bool:
    if not isinstance(value, Mapping) or {*map(type, value)} <= {str}:
        return False
    return len(to_jsonable_python(dict.fromkeys(value), bytes_mode="base64")) < len(value)


def _place_of_clash(value: Any, levels: int = REQUEST_LEVELS) -> Fault | None:
    if _is_clash(value):
        texts: dict[str, Any] = {}
        for key in value:
            [text] = to_jsonable_python({key: None}, bytes_mode="base64")
            if text in texts:
                return Fault("", f"the keys {brief(texts[text])} and {brief(key)} are the same in JSON: leave one out")
            texts[text] = key
    for part, inner in members(value) if levels else ():
        if _clashes(inner) and (found := _place_of_clash(inner, levels - 1)) is not None:
            return below([part if isinstance(part, int | str) else repr(part)], found)
    return None


def check_no_secret(value: object, data: Any, name: str) -> None:
    """Raise `BadValue` if a value contains one of pydantic's secrets, so that `data`, its JSON, has asterisks.

    Finding asterisks in the JSON is quick; without any, the value is not searched.
    """
    if MASK in to_json(data) and holds_secret(value):
        raise BadValue(
            f"{name} contains a secret, which would be written as asterisks: give a str, to an encrypted task if the"
            " server must not read it, or give a name to look it up by"
        )


def holds_secret(value: object, levels: int = MOST_LEVELS) -> bool:
    """Return whether a value contains one of pydantic's secrets."""
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return bool(value.get_secret_value())
    return levels > 0 and any(holds_secret(inner, levels - 1) for _, inner in members(value))


def plain_request(op: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request as plain JSON data. Raises `InvalidArguments`, which names the place."""
    try:
        data: dict[str, Any] = plain(dict(fields), "", REQUEST_LEVELS)
        for name, value in fields.items() if MASK in to_json(data) else ():
            check_no_secret(value, data, name)
    except BadValue as error:
        raise InvalidArguments(f"{op}: {error}") from None
    return data


def plain_text(text: str, name: str = "") -> str:
    """Return a text for a request's path or query. Raises `InvalidArguments` for one that can't be sent.

    `name` is how messages call it; by default they show the text itself.
    """
    if (found := fault(text, name or brief(text))) is not None:
        raise InvalidArguments(str(found))
    return text


def encoded(request: Any) -> bytes:
    """Return a request as JSON. Raises `InvalidArguments`, which names the place, if that can't be done.

    Its content was checked already, or is checked by the server, so this only looks for what would make it invalid
    JSON, in the time of three searches.
    """

    def refuse(error: BaseException) -> NoReturn:
        plain_request("the request", {"fields": request})
        raise InvalidArguments(f"the request can't be written as JSON: {said_by(error)}") from None

    data = asked(lambda: to_json(request, inf_nan_mode="constants", bytes_mode="base64"), refuse)
    if any(mark in data for mark in _SUSPECT) and (found := fault(request, "", REQUEST_LEVELS)):
        raise InvalidArguments(f"the request can't be sent: {found}")
    return data


def clean(text: str) -> str:
    """Return text that every store accepts: no NUL, no lone surrogates, not longer than `LONGEST_OUTPUT`."""
    if "\x00" in text or not text.isascii():
        text = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    if len(text) <= LONGEST_OUTPUT:
        return text
    half = LONGEST_OUTPUT // 2 - 50
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def said_by(error: BaseException) -> str:
    """Return an exception's message, as text that can be stored; if `str` fails, its class is named."""
    return asked(lambda: clean(str(error)), lambda _: f"{type(error).__name__}, which can't be printed")


def named(error: BaseException) -> str:
    """Return an exception's class and message; the class is not repeated if the message begins with it."""
    name, said = type(error).__name__, said_by(error)
    return (said if said.startswith(f"{name}:") else clean(f"{name}: {said}")) if said else name


def _unplain(value: Any, name: str, error: BaseException) -> Fault:
    """Return which part of a value can't be made plain, and why."""
    parts: list[int | str] = []
    if any(mark in said_by(error) for mark in _ENDLESS):
        inside = [] if name else [str(part) for part, inner in members(value) if _refusal(inner) is not None]
        return below(inside[:1], Fault("", TOO_DEEP)).within(name)
    for _ in range(MOST_LEVELS):
        for part, inner in members(value):
            if (refusal := _refusal(inner)) is not None:
                parts.append(part if isinstance(part, int | str) else repr(part))
                value, error = inner, refusal
                break
        else:
            break
    return below(parts, Fault("", _reason(value, error))).within(name)


def _refusal(value: Any) -> BaseException | None:
    def write() -> BaseException | None:
        to_jsonable_python(value, bytes_mode="base64")
        return None

    return asked(write, lambda error: error)


def members(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a value contains, each item with the name or index of its place; empty for a value without items."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, BaseModel):
        return iter(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    return enumerate(value) if isinstance(value, list | tuple | set | frozenset) else ()


def _reason(value: Any, error: BaseException) -> str:
    if isinstance(value, str) and (found := fault(value)) is not None:
        return found.why
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it
        return (
            "a coroutine that was never awaited: write `await` before it, and make what calls it, as a decorator, async"
        )
    kind, said = type(value).__name__, said_by(error)[:300]
    if isinstance(value, BaseModel) and "utf-8" in said:
        return (
            f"bytes that are not UTF-8 in {kind}, which pydantic writes as text: give it"
            " model_config = ConfigDict(ser_json_bytes='base64', val_json_bytes='base64')"
        )
    return f"{kind}, {NO_JSON}: {said}; use plain data"


def brief(value: Any) -> str:
    """Return a short form of a value for error messages, in about 100 characters.

    A number that Python refuses to print is described by its length, and a value that can't be printed by its class.
    """

    def otherwise(_: BaseException) -> str:
        if issubclass(type(value), int):
            # Python writes no whole number of more than 4,300 digits.
            return f"a whole number of about {round(value.bit_length() * _DIGITS_PER_BIT):,} digits"
        return f"{type(value).__name__}, which can't be written"

    text = asked(lambda: repr(value), otherwise)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


def first_wrong(error: ValidationError) -> str:
    """Return where and what the first error is that pydantic found."""
    found = error.errors(include_url=False)[0]
    place = ".".join(map(str, found["loc"]))
    return f"{place}: {reason(found)}, not {brief(found['input'])}" if place else reason(found)
