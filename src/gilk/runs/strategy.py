# SPDX-License-Identifier: LGPL-2.1-or-later
"""Strategies: named ways to choose points in a function, each with its usual instrument.

A strategy is asked once per function, and once for each part that the compiler put elsewhere (foo.cold). It sees only
blocks and control flow, so that it works in processes and kernels alike. `FILE.py:FUNCTION` is a user's own strategy: a
Python function from a FunctionView to places.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from gilk.analysis.model import End, Function
from gilk.errors import GilkError, UsageError
from gilk.session import request
from gilk.session.onward import followed
from gilk.session.places import FunctionView, Place
from gilk.session.request import Builtin, CFunction, Request, Wanted
from gilk.spec.point import Spec, every_entry, without_where
from gilk.splice.points import Point
from gilk.splice.segments import is_call
from gilk.targets.base import Code, Loaded
from gilk.targets.process import Process
from gilk.values import dataclass

Instrument = Builtin | CFunction
_TAILS = frozenset((End.TAIL, End.TAIL_INDIRECT))
_NAME = re.compile(r"@(?P<name>[^:=]+\.py:\w+|[\w-]+)(?::(?P<instrument>.+))?\Z")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy. ``places`` returns the points in a function. ``once``: a probe is taken out after its first hit."""

    name: str
    places: Callable[[FunctionView], Iterable[Place]]
    instrument: Instrument
    once: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request ``-i FUNCTIONS=@STRATEGY``. ``spec``: names image and function; its points do not matter."""

    spec: Spec
    strategy: Strategy
    instrument: Instrument

    @property
    def of_kernel(self) -> bool:
        return Request(self.spec, self.instrument).of_kernel


def path(function: FunctionView) -> Iterator[Place]:
    """The points before every block: the path that control takes."""
    return (block.pre for block in function.blocks)


def timed(function: FunctionView) -> Iterator[Place]:
    """The entry and every return: with the instrument `time`, how long calls take."""
    if not function.function.whole:
        yield function.entry
        yield from function.returns


def calls(function: FunctionView) -> Iterator[Place]:
    """The points before every call, and before every jump that leaves the function as a call would."""
    analysis = function.process.analysis(function.loaded)
    for block in function.function.blocks:
        sites = [s.instruction.ip for s in analysis.steps(function.function, block) if is_call(s)]
        if block.how in _TAILS and not function.function.owns(block.target):
            sites.append(block.terminator)
        for site in sites:
            yield _at(function, site)


def edges(function: FunctionView) -> Iterator[Place]:
    """The points before every block, and before the jump at its end: edges are computed from these counts."""
    for view in function.blocks:
        yield view.pre
        post = view.post
        if post.point.after or post.point.address != view.block.start:
            yield post


def _at(function: FunctionView, site: int) -> Place:
    where = f"+{site - function.function.start:#x}"
    return function.place(Point(function.loaded.name, function.name, where, site, False))


BUILT_IN = {
    "path": Strategy("path", path, Builtin.STAMP),
    "time": Strategy("time", timed, Builtin.TIME),
    "calls": Strategy("calls", calls, Builtin.STAMP),
    "edges": Strategy("edges", edges, Builtin.COUNT),
    "coverage": Strategy("coverage", path, Builtin.COUNT, once=True),
}


def parse(text: str, own_code: bool = True) -> Request | Chosen:
    """Read ``POINTS=INSTRUMENT``, or ``[IMAGE:]FUNCTION=@STRATEGY[:INSTRUMENT]``.

    Without ``own_code``, a strategy in Python, which is executed to be read, is refused. Raises UsageError
    `bad-instrument`, `bad-point`, `bad-strategy`, `no-such-strategy`, `own-code`.
    """
    where, separator, name = text.partition("=@")
    if not separator:
        return request.parse(text)
    match = _NAME.match(f"@{name}")
    if match is None:
        raise UsageError("bad-strategy", f"{text!r} is not FUNCTIONS=@STRATEGY", "for example 'parse_*=@coverage'")
    if not own_code and ":" in match["name"]:
        hint = "gilk run and gilk experiment run take strategies in Python"
        raise UsageError("own-code", f"{match['name']!r} is a strategy in a file with code", hint)
    return choose(where, match["name"], match["instrument"] or "")


def choose(functions: str, name: str, instrument: str = "", directory: Path = Path()) -> Chosen:
    """The request for a strategy by its name. ``instrument``: '' for the strategy's own. ``directory``: where Python
    files are looked for. Raises as `parse` does."""
    if (named := without_where(functions)) is not None:
        hint = f"write {named}=@{name}"
        raise UsageError("bad-strategy", f"{functions!r} has a WHERE; with @STRATEGY name functions only", hint)
    found = find(name, directory)
    chosen = request.instrument(instrument) if instrument else found.instrument
    if found.once and chosen != Builtin.COUNT:
        raise UsageError("bad-strategy", f"the strategy {name} needs the instrument count")
    if chosen == Builtin.TIME and found.name != "time":
        raise UsageError("bad-strategy", f"the instrument `time` goes with the strategy time only, not with {name}")
    return Chosen(every_entry(functions), found, chosen)


def find(name: str, directory: Path = Path()) -> Strategy:
    """The built-in strategy of that name, or the one of ``FILE.py:FUNCTION``. Raises UsageError `no-such-strategy`,
    `bad-strategy`."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    file, separator, function = name.rpartition(":")
    if separator and file.endswith(".py"):
        return _of_file(directory / file, function)
    near = difflib.get_close_matches(name, BUILT_IN, 1)
    hint = f"did you mean {near[0]}?" if near else f"it is one of {', '.join(BUILT_IN)}, or FILE.py:FUNCTION"
    raise UsageError("no-such-strategy", f"there is no strategy {name!r}", hint)


def _of_file(file: Path, name: str) -> Strategy:
    if not file.is_file():
        raise UsageError("no-such-strategy", f"there is no file {file}")
    module_spec = importlib.util.spec_from_file_location(f"gilk_strategy_{file.stem}", file)
    assert module_spec and module_spec.loader
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError("bad-strategy", f"{file} cannot be imported: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError("no-such-strategy", f"{file} has no function {name!r}")
    usual = request.instrument(str(getattr(function, "instrument", "count")))
    return Strategy(f"{file.name}:{name}", function, usual, bool(getattr(function, "once", False)))


def expand(code: Code, wanted: Request | Chosen) -> Iterator[Wanted]:
    """All probes that a request means in this process or kernel, whether it names points or a strategy; those of timed
    functions that end in jumps to others are for calls that go on there (session/onward.py).

    Raises UsageError, TargetError as `request.expand`, and `bad-strategy` if a user's strategy fails.
    """
    return followed(code, _expanded(code, wanted))


def _expanded(code: Code, wanted: Request | Chosen) -> Iterator[Wanted]:
    if isinstance(wanted, Request):
        yield from request.expand(code, [wanted])
        return
    # This raises no-such-image and no-such-process as for points.
    found = request.expand(code, [Request(wanted.spec, Builtin.COUNT)], inlined=False)
    yield from in_functions(code, ((each.loaded, each.function) for each in found), wanted)


def in_functions(code: Code, functions: Iterable[tuple[Loaded, Function]], chosen: Chosen) -> Iterator[Wanted]:
    """The probes of a strategy in functions with all their parts, each part once. Raises UsageError `bad-strategy`."""
    seen: set[tuple[Path, int]] = set()
    for loaded, function in functions:
        for part in code.analysis(loaded).extents(function):
            if (loaded.path, part.start) not in seen:
                seen.add((loaded.path, part.start))
                yield from _in_function(_view(code, loaded, part), chosen)


def _view(code: Code, loaded: Loaded, function: Function) -> FunctionView:
    # A view asks a process only for what a kernel can tell as well.
    return FunctionView(cast(Process, code), loaded, function)


def _in_function(view: FunctionView, chosen: Chosen) -> Iterator[Wanted]:
    if chosen.instrument == Builtin.TIME:
        if not view.function.whole:
            yield from view.entry.wanted(Builtin.TIME)  # `wanted` adds the returns
        return
    for place in _places(view, chosen.strategy):
        if place.function.start == view.function.start or chosen.strategy.name == "time":
            yield from place.wanted(chosen.instrument)
        else:
            name = chosen.strategy.name
            raise UsageError("bad-strategy", f"{name} was asked about {view.name} and returned {place.point.label}")


def _places(view: FunctionView, strategy: Strategy) -> list[Place]:
    try:
        places = list(strategy.places(view))
    except GilkError:
        raise
    except Exception as error:
        raise UsageError("bad-strategy", f"{strategy.name} fails for {view.name}: {error!r}") from error
    if not all(isinstance(place, Place) for place in places):
        raise UsageError("bad-strategy", f"{strategy.name} returned something other than places for {view.name}")
    return places
