"""The types of calls that take a task's arguments, with or without `options=` beside them.

A keyword can't be added to a `ParamSpec`: `*args: P.args, options: Options, **kwargs: P.kwargs` is not a valid
signature. A parameter before `*args` is valid, and may be passed by name if no positional argument comes before it. So
each number of positional arguments has an overload of its own, which takes that many parameters off the front of the
`ParamSpec`: up to six beside `options`; further arguments have to be passed by name.
"""

from typing import Any, ParamSpec, Protocol, TypeVar, overload

from treadle.client.options import Options

P = ParamSpec("P")
Q = ParamSpec("Q")
T_co = TypeVar("T_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
F_contra = TypeVar("F_contra", contravariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


class Takes1(Protocol[A_contra, P, T_co]):
    """Takes 1 by position before the rest."""

    def takes(self, a: A_contra, /, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Take them."""


class Takes2(Protocol[A_contra, B_contra, P, T_co]):
    """Takes 2 by position before the rest."""

    def takes(self, a: A_contra, b: B_contra, /, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Take them."""


class Takes3(Protocol[A_contra, B_contra, C_contra, P, T_co]):
    """Takes 3 by position before the rest."""

    def takes(self, a: A_contra, b: B_contra, c: C_contra, /, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Take them."""


class Takes4(Protocol[A_contra, B_contra, C_contra, D_contra, P, T_co]):
    """Takes 4 by position before the rest."""

    def takes(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Take them."""


class Takes5(Protocol[A_contra, B_contra, C_contra, D_contra, E_contra, P, T_co]):
    """Takes 5 by position before the rest."""

    def takes(
        self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, e: E_contra, /, *args: P.args, **kwargs: P.kwargs
    ) -> T_co:
        """Take them."""


class Takes6(Protocol[A_contra, B_contra, C_contra, D_contra, E_contra, F_contra, P, T_co]):
    """Takes 6 by position before the rest."""

    def takes(
        self,
        a: A_contra,
        b: B_contra,
        c: C_contra,
        d: D_contra,
        e: E_contra,
        f: F_contra,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T_co:
        """Take them."""


class Call(Protocol[P, T_co]):
    """A method that takes the arguments of a task's function, and `options=Options(…)` beside them."""

    def takes(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        """Take the arguments alone; only for type checkers."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __call__(self, options: Options, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __call__(self: "Takes1[A, Q, T_co]", a: A, options: Options, *args: Q.args, **kwargs: Q.kwargs) -> T_co: ...
    @overload
    def __call__(
        self: "Takes2[A, B, Q, T_co]", a: A, b: B, options: Options, *args: Q.args, **kwargs: Q.kwargs
    ) -> T_co: ...
    @overload
    def __call__(
        self: "Takes3[A, B, C, Q, T_co]", a: A, b: B, c: C, options: Options, *args: Q.args, **kwargs: Q.kwargs
    ) -> T_co: ...
    @overload
    def __call__(
        self: "Takes4[A, B, C, D, Q, T_co]",
        a: A,
        b: B,
        c: C,
        d: D,
        options: Options,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> T_co: ...
    # Stands twice: each number of arguments before `options` needs an overload of its own.
    @overload
    def __call__(
        self: "Takes5[A, B, C, D, E, Q, T_co]",
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        options: Options,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> T_co: ...
    @overload
    def __call__(
        self: "Takes6[A, B, C, D, E, F, Q, T_co]",
        a: A,
        b: B,
        c: C,
        d: D,
        e: E,
        f: F,
        options: Options,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> T_co: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Take the arguments; raise `InvalidArguments` when they don't fit."""
