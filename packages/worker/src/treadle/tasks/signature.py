"""A function's signature as a pydantic model, which makes a JSON payload of arguments and arguments of a payload."""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from treadle.errors import BadValue, DefinitionError, InvalidArguments
from treadle.tasks.payload_schema import described, schema_of
from treadle.tasks.rereading import (
    first_altered,
    first_of_both,
    is_sure,
    listed,
    may_lose,
    may_shift,
    names,
    secret_of,
    takes_both,
    takes_bytes,
)
from treadle.tasks.returned import Returned
from treadle.values import asked, brief, clash, named, plain, said_by
from treadle.wire.options import OPTIONS
from treadle.wire.values import MOST_LEVELS, fault

_CONTEXT = "treadle.tasks.context.Context"
_CONTEXT_SPELLINGS = frozenset({"Context", "treadle.Context", "context.Context", _CONTEXT})

_BY_POSITION = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})
"""The kinds of parameter that may receive the context."""

_CANT = "can't be called like this"
_UNREAD = "it would not survive a round trip through JSON"
_UNKNOWN = "there is no such argument"


BytesMode: TypeAlias = typing.Literal["base64", "utf8"]


class StandIn:
    """Stands for a future result in a flow, as an argument or as an item of a list that is an argument."""

    __slots__ = ()


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, whose annotations may refer to names that are not defined yet.

    From Python 3.14 on, annotations are evaluated on access (PEP 649), and an undefined name would raise `NameError`;
    here it becomes a `ForwardRef`. Raises `TypeError` and `ValueError` as `inspect.signature` does.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


class Signature:
    """The parameters of `function`, without the `Context` that the worker passes.

    Raises `DefinitionError` for `*args`, `**kwargs` and positional-only parameters. Annotations are resolved on first
    use, so they may refer to names that the module defines further down.
    """

    def __init__(self, function: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> None:
        self.function = function
        self.name: str = getattr(function, "__qualname__", repr(function))
        own = {one.__name__: one for one in getattr(function, "__type_params__", ())}
        self._locals = dict(local_names or {}) | own
        parameters = list(signature_of(function).parameters.values())
        self.wants_context: bool = bool(parameters) and self._is_context(parameters[0])
        if self.wants_context and parameters[0].kind not in _BY_POSITION:
            raise DefinitionError(
                f"{self.name} takes its Context as the keyword-only {parameters[0].name}: move it before the '*'"
            )
        self.parameters: list[inspect.Parameter] = parameters[1:] if self.wants_context else parameters
        for parameter in self.parameters:
            self._check(parameter)
        self.names: tuple[str, ...] = tuple(parameter.name for parameter in self.parameters)
        self._model: type[BaseModel] | None = None
        self._places: tuple[tuple[str, str], ...] = ()
        """Each parameter with its field in the model, cached because pydantic takes a microsecond to list the
        fields."""
        self._partial: dict[tuple[frozenset[str], BytesMode], type[BaseModel]] = {}
        self._is_sure = False
        """Whether the argument types alone guarantee that JSON is read back as the same values."""
        self._may_clash = False
        """Whether an argument may hold a dict with two keys that JSON writes as the same text."""
        self._takes_both = False
        """Whether an argument may hold bytes or another type in the same place."""
        self._may_lose = self._may_shift = False
        """Whether an argument may be read back as a different value, or as a different one each time."""
        self._takes_bytes = False
        self._returns: Returned | None = None

    @property
    def model(self) -> type[BaseModel]:
        """The pydantic model of the arguments; raises `DefinitionError` when an annotation can't be used."""
        if self._model is None:
            self._model = self._make_model()
            self._places = tuple(zip(self.names, self._model.model_fields, strict=True))
            annotations = [listed(self._resolve(parameter.annotation)) for parameter in self.parameters]
            self._is_sure = all(map(is_sure, annotations))
            self._may_clash = not self._is_sure or any(names(one, Any) for one in annotations)
            kinds = self._model.__pydantic_core_schema__
            self._takes_bytes = takes_bytes(kinds)
            self._takes_both = not self._is_sure and takes_both(kinds)
            self._may_lose, self._may_shift = may_lose(kinds), may_shift(kinds)
        return self._model

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the payload."""
        return schema_of(self.model)

    @property
    def returns(self) -> Returned:
        """The type of the result, with which results are written and read; any type if it is not annotated."""
        if self._returns is None:
            try:
                self._returns = Returned(self._resolve(signature_of(self.function).return_annotation))
            except DefinitionError:
                self._returns = Returned()
        return self._returns

    def named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name; raise `InvalidArguments` for too many, or for one given twice."""
        if len(args) > len(self.names):
            raise InvalidArguments(f"{self.name} takes {len(self.names)} arguments, but {len(args)} were given")
        given = dict(zip(self.names, args, strict=False))
        if not kwargs:
            return given
        twice = given.keys() & kwargs.keys()
        if twice:
            raise InvalidArguments(f"{self.name} got {', '.join(sorted(twice))} both by position and by name")
        return {**given, **kwargs}

    def payload(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, without: frozenset[str] = frozenset()
    ) -> dict[str, Any]:
        """Return the given arguments as a JSON payload; raise `InvalidArguments`.

        Arguments in `without` are left out: the worker fills them in.
        """
        given = self.named(args, kwargs)
        reading = self._model_without(without)
        # A str for bytes is meant literally, not as base64.
        taking = self._model_without(without, "utf8") if self._takes_bytes else reading
        try:
            model = taking.__pydantic_validator__.validate_python(given)
        except ValidationError as error:
            raise InvalidArguments(self._misplaced(given) or self._optional(given) or self._explain(error)) from None
        except Exception as error:
            # A validator may raise anything; the traceback shows where.
            raise InvalidArguments(f"{self.name} {_CANT}: {named(error)}") from error
        try:
            dumped = _written_of(model)
            found: object = fault(dumped) or (clash(given, dumped) if self._may_clash else None)
        except Exception as error:  # noqa: BLE001 - a class may serialise itself, and raise anything
            dumped, found = {}, _places_of(error) if isinstance(error, ValidationError) else _bad_value(model, error)
        if found is not None:
            raise InvalidArguments(self._misplaced(given) or f"{self.name} {_CANT}: {found}")
        if not self._is_sure:
            self._read_again(model, dumped, reading)
        return dumped

    def arguments(self, payload: Any) -> dict[str, Any]:
        """Return a payload as keyword arguments, with defaults filled in; raise `InvalidArguments`."""
        # From JSON rather than from Python objects: strict models accept a datetime's text only in JSON.
        validate = self.model.__pydantic_validator__.validate_json
        values = asked(lambda: validate(to_json(payload)), self._refuse).__dict__
        return {name: values[field] for name, field in self._places}

    def _read_again(self, model: BaseModel, dumped: dict[str, Any], reading: type[BaseModel]) -> None:
        """Raise `InvalidArguments` if a worker could not read back arguments that the function accepts.

        A dataclass writes fields that `__init__` does not accept, a model may be read by another alias than it is
        written by, a secret is written as asterisks, and bytes are written as text.
        """
        written = to_json(dumped)
        if (name := secret_of(model, written)) is not None:
            raise InvalidArguments(
                f"{self.name} {_CANT}: {name} contains a secret, which would be written as asterisks: take a str, and"
                " @task(encrypted=True) if the server must not read it, or take only its name and look it up"
            )
        read = reading.__pydantic_validator__.validate_json
        said: str | None = None
        try:
            again = read(written)
            if self._takes_both:
                said = first_of_both(model, again)
            if (self._may_lose or self._may_shift) and (rewritten := _written_of(again)) != dumped:
                said = said or (first_altered(model, again, dumped, rewritten) if self._may_lose else None)
                third = read(to_json(rewritten))
                said = said or first_altered(again, third, rewritten, _written_of(third))
        except ValidationError as error:
            raise InvalidArguments(f"{self.name} {_CANT}: {_UNREAD}: {_places_of(error)}") from None
        except Exception as error:
            # As in `payload`: a validator may accept what was given, and not what it made of that.
            raise InvalidArguments(f"{self.name} {_CANT}: {_UNREAD}: {named(error)}") from error
        if said is not None:
            raise InvalidArguments(f"{self.name} {_CANT}: {said}")

    def _misplaced(self, given: Mapping[str, Any]) -> str | None:
        """Return what to write instead if an argument has a task of a flow but `flow.add` was not used, or None."""
        for name, value in given.items():
            if _holds_stand_in(value):
                return (
                    f"{self.name} {_CANT}: {name} has a task of a flow in it, whose result comes later:"
                    f" write flow.add({self.name}, {name}=…) instead of bind or submit, with the task, or a list of"
                    " such tasks, as the whole of the argument"
                )
        return None

    def _optional(self, given: Mapping[str, Any]) -> str | None:
        """Return what to write instead if options were given as arguments; else None."""
        if not (found := [name for name in given if name not in self.names and name in {"options", *OPTIONS}]):
            return None
        options = ", ".join(f"{name}=…" for name in found if name != "options") or "…"
        return (
            f"{self.name} {_CANT}: it has no argument {', '.join(found)}, and options go with the task:"
            f" {self.name}.with_options(Options({options}))"
        )

    def _refuse(self, error: BaseException) -> NoReturn:
        """Raise `InvalidArguments` for an error from pydantic or from the arguments' own classes."""
        if type(error) is ValidationError:
            raise InvalidArguments(self._explain(error)) from None
        raise InvalidArguments(f"{self.name} {_CANT}: {named(error)}") from None

    def _explain(self, error: ValidationError) -> str:
        return f"{self.name} {_CANT}: {_places_of(error)}"

    def _check(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise DefinitionError(
                f"{self.name} takes {star}{parameter.name}: a task's payload is checked against named parameters;"
                f" name them, or take one dict or list instead of {star}{parameter.name}"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DefinitionError(
                f"{self.name} takes {parameter.name} by position only: a payload has names; remove the '/'"
            )
        if self._is_context(parameter):
            raise DefinitionError(f"{self.name} takes its Context as {parameter.name}: make it the first parameter")

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        annotation = _written(parameter.annotation)
        if isinstance(annotation, str):
            if annotation in _CONTEXT_SPELLINGS:
                return True
            try:
                annotation = self._resolve(annotation)
            except DefinitionError:
                return False
        return _is_the_context(annotation)

    def _resolve(self, annotation: Any) -> Any:
        """Return an annotation with its names resolved in the function's scope."""
        if annotation is inspect.Parameter.empty:
            return Any
        stand_in = types.SimpleNamespace(__annotations__={"it": annotation})
        scope = getattr(inspect.unwrap(self.function), "__globals__", {})
        try:
            return typing.get_type_hints(stand_in, scope, self._locals or None, include_extras=True)["it"]
        except Exception as error:
            # The annotation is text that was evaluated, so it may raise anything.
            raise DefinitionError(
                f"{self.name}: the annotation {_written(annotation)!r} can't be resolved ({error}); import what it"
                " names at runtime, not under TYPE_CHECKING"
            ) from error

    def _model_without(self, names: frozenset[str], read_bytes: BytesMode = "base64") -> type[BaseModel]:
        whole = self.model  # making it finds out whether arguments take bytes
        if not names and read_bytes == "base64":
            return whole
        if (names, read_bytes) not in self._partial:
            self._partial[names, read_bytes] = self._make_model(names, read_bytes)
        return self._partial[names, read_bytes]

    def _make_model(self, without: frozenset[str] = frozenset(), read_bytes: BytesMode = "base64") -> type[BaseModel]:
        config = ConfigDict(
            extra="forbid",
            arbitrary_types_allowed=False,
            ser_json_bytes="base64",
            val_json_bytes=read_bytes,
            # As they are, so that they are refused: NaN would become null.
            ser_json_inf_nan="constants",
        )
        fields: dict[str, Any] = {}
        try:
            fields = self._fields(without)
            return described(self.function.__name__, config, fields)
        except DefinitionError:
            raise
        except Exception as error:
            # pydantic's SchemaError, such as for an invalid pattern, or anything that the user's types raise.
            where = next((f"its argument {name}" for name in self._in_the_way(config, fields)), "its arguments")
            raise DefinitionError(f"{self.name}: {where} can't be described in JSON: {_told(error)}") from error

    def _in_the_way(self, config: ConfigDict, fields: Mapping[str, Any]) -> Iterator[str]:
        """Yield the arguments that can't be described even when alone."""
        for field, said in fields.items():
            try:
                described(self.function.__name__, config, {field: said})
            except Exception:  # noqa: BLE001 - as when all of them were described
                yield self.names[int(field[1:])]

    def _fields(self, without: frozenset[str]) -> dict[str, Any]:
        # Fields are numbered and the arguments' names are aliases: an argument may be called json, copy or _x, which
        # BaseModel reserves.
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(self.parameters):
            if parameter.name in without:
                continue
            kind = self._resolve(parameter.annotation)
            if any(map(_is_the_context, typing.get_args(kind))):
                raise DefinitionError(f"{self.name}: {parameter.name} is a Context inside {kind}: write Context alone")
            if kind is typing.ClassVar or typing.get_origin(kind) is typing.ClassVar:
                raise DefinitionError(f"{self.name}: {parameter.name} is a ClassVar, which an argument can't be")
            default = ... if parameter.default is parameter.empty else parameter.default
            if isinstance(default, FieldInfo):
                # Its constraints apply, but not its own alias or exclusion: an argument is named after its parameter.
                kind = typing.Annotated[kind, default]
                default = FieldInfo(default=default.default, default_factory=default.default_factory)
            annotation: Any = typing.Annotated[listed(kind), Field(alias=parameter.name, exclude=False)]
            fields[f"a{number}"] = (annotation, default)
        return fields


def _written(annotation: Any) -> Any:
    """Return an annotation, or its source text if its names are looked up later."""
    return annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation


def _is_the_context(annotation: Any) -> bool:
    return f"{getattr(annotation, '__module__', '')}.{getattr(annotation, '__qualname__', '')}" == _CONTEXT


def _written_of(model: BaseModel) -> dict[str, Any]:
    """Return the arguments as they are sent; raises whatever pydantic and the arguments' classes raise.

    Arguments left to the function's defaults are left out, but nothing within a model is: its defaults, such as an id
    or a time, might differ in the worker, or might tell which class of a union it is.
    """
    dumped: dict[str, Any] = model.__pydantic_serializer__.to_python(
        model, mode="json", by_alias=True, include=model.model_fields_set, round_trip=True
    )
    return dumped


def _places_of(error: ValidationError) -> str:
    """Return what is wrong, and where."""
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: "
        + (_UNKNOWN if detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1 else detail["msg"])
        + ("" if detail["type"] in {"missing", "extra_forbidden"} else f", not {brief(detail['input'])}")
        for detail in error.errors(include_url=False)
    )


def _told(error: Exception) -> str:
    """Return pydantic's message about a type, without its advice for authors of models and the link at its end."""
    said = said_by(error).split("\n\nFor further information visit", 1)[0]
    of_a_type, *more = said.split(" Set `arbitrary_types_allowed=True`", 1)
    if more:
        return f"{of_a_type} Take plain data, a dataclass or a pydantic model."
    return said.strip() or type(error).__name__


def _holds_stand_in(value: object, levels: int = MOST_LEVELS) -> bool:
    """Return whether a value contains a stand-in; limited to a payload's depth, because a list may contain itself."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return levels > 0 and any(_holds_stand_in(one, levels - 1) for one in value)
    return isinstance(value, StandIn)


def _bad_value(model: BaseModel, error: Exception) -> object:
    """Return which part of the arguments can't be sent, and why."""
    fields = type(model).model_fields
    try:
        plain({str(fields[name].alias): value for name, value in model.__dict__.items()}, "")
    except BadValue as found:
        return found
    return said_by(error)
