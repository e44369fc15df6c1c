# SPDX-License-Identifier: LGPL-2.1-or-later
"""``dataclass`` as in the standard library, made in a quarter of the time, since a command begins with making hundreds.

The standard library compiles five methods for each class: half of what importing gilk would take. Here the constructor
is compiled when it is first called, and the other methods need no code of their own. All else (fields, slots,
replace(), matching) is the standard library's; a type checker sees only the standard library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

_MISSING: Final = dataclasses.MISSING
_set: Final = object.__setattr__
_Method = Callable[..., Any]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        """The decorator dataclasses.dataclass, made faster; the standard library makes those with ``order``."""
        if order:
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, eq=eq, order=order)
        return _made(cls, frozen, slots, eq) if cls is not None else lambda each: _made(each, frozen, slots, eq)


def _made(cls: type[Any], frozen: bool, slots: bool, eq: bool) -> type[Any]:
    own = set(vars(cls))
    if "__eq__" in own and vars(cls).get("__hash__") is None:
        own.discard("__hash__")  # Python sets it to None in a class with an __eq__
    if cls.__doc__ is None:
        cls.__doc__ = ""  # otherwise the standard library makes one from the signature
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    methods: dict[str, _Method | None] = {"__init__": _constructor(made, frozen, slots), "__repr__": _repr}
    if eq:
        methods |= _comparing(made, frozen)
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


# The constructor.


def _constructor(cls: type[Any], frozen: bool, slots: bool) -> _Method:
    """A constructor that compiles the real one when it is first called, and puts it in its place."""

    def __init__(self: object, *given: object, **named: object) -> None:
        compiled = _compiled(cls, frozen, slots)
        if cls.__init__ is __init__:
            cls.__init__ = compiled
        compiled(self, *given, **named)

    return __init__


def _compiled(cls: type[Any], frozen: bool, slots: bool) -> _Method:
    """The constructor: it assigns each field the argument, or its default."""
    known: dict[str, Any] = {"_set": _set, "_missing": _MISSING}
    parameters, body = ["self"], []
    for number, field in enumerate(dataclasses.fields(cls)):
        value, default = field.name, f"_default{number}"
        if field.default_factory is not _MISSING:
            known[default] = field.default_factory
            value = f"{default}() if {field.name} is _missing else {field.name}" if field.init else f"{default}()"
            parameters += [f"{field.name}=_missing"] * field.init
        elif field.default is not _MISSING:
            known[default] = field.default
            value = field.name if field.init else default
            parameters += [f"{field.name}={default}"] * field.init
            if not field.init and not slots:
                continue  # the default is an attribute of the class
        elif field.init:
            parameters.append(field.name)
        else:
            continue
        body.append(f"_set(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    # exec() is given no text: a KeyboardInterrupt in that would end `python -m` by SIGINT, even if it is caught.
    exec(compile(text, f"<{cls.__qualname__}>", "exec"), known)
    made: _Method = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


# Methods that are the same for all classes.


def _comparing(cls: type[Any], frozen: bool) -> dict[str, _Method | None]:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    values = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        _set(self, each.name, value)
