# SPDX-License-Identifier: LGPL-2.1-or-later
"""Write docs/api-reference.md: each name that `gilk` offers to programs, with its types and its docstring."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from enum import Enum, EnumType
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import gilk

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api-reference.md"
_WIDTH = 116
_HEAD = """\
<!-- tools/api_reference.py writes this page from the docstrings. -->
# Names of the Python API

Each name of `gilk`, with its types. [The API](api.md) tells how they are used.
Nothing else is promised.
"""


def page() -> str:
    groups: dict[str, list[str]] = {}
    for name in gilk.__all__:
        place = gilk._PLACES.get(name, "errors").partition(":")[0]
        if not name.startswith("_"):
            groups.setdefault(place, []).append(name)
    parts = [_HEAD]
    for place in sorted(groups, key=lambda each: (each == "errors", each)):
        parts += [f"\n## {place}\n", *(part for name in sorted(groups[place], key=str.lower) for part in _entry(name))]
    return "\n".join(parts).rstrip() + "\n"


def _entry(name: str) -> Iterator[str]:
    found = getattr(gilk, name)
    yield f"### gilk.{name}\n"
    if isinstance(found, ModuleType):
        yield f"The module `{found.__name__}`. {_text(found)}\n"
    elif inspect.isclass(found):
        yield from _class(name, found)
    elif callable(found):
        yield f"{_signature(name, found)}\n"
        yield f"{_text(found)}\n"
    else:
        yield f"A `{type(found).__name__}`.\n"


def _class(name: str, found: type) -> Iterator[str]:
    if isinstance(found, EnumType):
        yield f"One of {', '.join(f'`{each.name}`' for each in found)}.\n"
    elif _is_made_by_users(found):
        yield f"{_signature(name, found)}\n"
    yield f"{_text(found)}\n"
    for member, value in sorted(_members(found)):
        if isinstance(value, property) or not callable(value):
            yield f"- `{member}`{_type(value)}{_dash(_text(value))}"
        else:
            yield f"- `{member}{_arguments(value)}`{_dash(_text(value))}"
    yield ""


def _is_made_by_users(found: type) -> bool:
    """Whether users construct the class themselves; only gilk makes exceptions, context managers, and values with
    private fields."""
    private = _is_value(found) and any(each.name.startswith("_") for each in dataclasses.fields(found))
    return not (private or issubclass(found, Exception) or hasattr(found, "__enter__"))


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of the class and of its base classes in gilk, each once, with their names."""
    seen = set()
    for base in (each for each in found.__mro__ if each.__module__.startswith("gilk")):
        for name, value in vars(base).items():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            shown = inspect.isfunction(plain) or isinstance(plain, property | cached_property)
            if shown and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, plain


def _type(value: Any) -> str:
    function = getattr(value, "fget", None) or getattr(value, "func", None)
    returned = inspect.get_annotations(function).get("return", "") if function else ""
    return f": `{returned}`" if returned else ""


def _arguments(function: Any) -> str:
    parameters, returned = _parts(function)
    return f"({', '.join(parameters)}){returned}"


def _signature(name: str, found: Any) -> str:
    parameters, returned = _fields(found) if inspect.isclass(found) and _is_value(found) else _parts(found)
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) > _WIDTH:
        line = "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){returned}"])
    return f"```python\n{line}\n```"


def _is_value(found: type) -> bool:
    """Whether it is a dataclass of gilk/values.py; its own constructor takes any arguments until it is compiled."""
    return hasattr(found, "__dataclass_fields__")


def _fields(found: type) -> tuple[list[str], str]:
    fields = [each for each in dataclasses.fields(found) if each.init]
    return [f"{each.name}: {each.type}{_default(each)}" for each in fields], ""


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_value(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else " = ..."


def _parts(function: Any) -> tuple[list[str], str]:
    """The parameters of a function or of a class's constructor, and the text of what it returns."""
    signature = inspect.signature(function)
    parameters = [_parameter(each) for each in signature.parameters.values() if each.name not in ("self", "cls")]
    returned = signature.return_annotation
    return parameters, "" if inspect.isclass(function) or returned is inspect.Signature.empty else f" -> {returned}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
    type_ = "" if one.annotation is one.empty else f": {one.annotation}"
    return f"{stars}{one.name}{type_}" + ("" if one.default is one.empty else f" = {_value(one.default)}")


def _value(default: object) -> str:
    said = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
    return "..." if callable(default) else "{}" if said == "mappingproxy({})" else said


def _text(found: Any) -> str:
    """The docstring in paragraphs, as Markdown; an indented part is a block of code there."""
    said = inspect.getdoc(found) or ""
    if inspect.isclass(found) and said == inspect.getdoc(found.__base__):
        return f"A `{found.__base__.__name__}`."
    if said.startswith(getattr(found, "__name__", "") + "("):  # a dataclass's generated docstring
        return ""
    return said.replace("``", "`").strip()


def _dash(said: str) -> str:
    return f": {' '.join(said.split())}" if said else ""


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == page() else "docs/api-reference.md is not what tools/api_reference.py writes")
    PAGE.write_text(page())
