# SPDX-License-Identifier: LGPL-2.1-or-later
"""The D program for a run's requests: the clauses of each request, at its points and at the returns of its calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gilk.engines.dtrace.compiled import Compiled, DoesNotCompile, ProgramText, compile_programs
from gilk.errors import UsageError
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.runs.clause_request import ClauseInstrument, ClauseRequest
from gilk.spec.conditional import NamedPoint
from gilk.values import dataclass

COUNTS, STACKS = "gilk_counts", "gilk_stacks"
REGISTERS = (
    *("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"),
    *("R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15", "RIP", "RFL"),
)  # in the order of records (native/abi/gilk_abi.h)
_ARGUMENTS = ("RDI", "RSI", "RDX", "RCX", "R8", "R9")
_SP = "uregs[R_SP]"
_NO_LETTER = re.compile(r"[^-:\w.?*\[\]!]", re.ASCII)  # a description cannot have these letters; `?` stands for one


@dataclass(frozen=True)
class SidedClauses:
    """The numbers of a request's clauses, from 1: those at its points, and those at the returns of its calls."""

    at: tuple[int, ...]
    back: tuple[int, ...] = ()


@dataclass(frozen=True)
class ClauseProgram:
    """The compiled program. ``clauses``: for each request, in order."""

    compiled: Compiled
    clauses: tuple[SidedClauses, ...]


def compiled(
    requests: Sequence[ClauseRequest], pid: int, depth: int, options: Options, world: World
) -> ClauseProgram:  # fmt: skip
    """Compile the clauses of all requests. ``depth``: frames of stacks. Raises UsageError `bad-condition`."""
    texts: list[ProgramText] = []
    numbers: list[SidedClauses] = []
    made = 0
    for number, request in enumerate(requests):
        at, back = _clauses(number, request, pid, depth)
        texts.append(ProgramText("description", Source("condition", "\n".join((*at, *back)))))
        first = made + 1
        made += len(at) + len(back)
        numbers.append(SidedClauses(tuple(range(first, first + len(at))), tuple(range(first + len(at), made + 1))))
    found = _compile(requests, texts, pid, options, world)
    for text, sided, request in zip(texts, numbers, requests, strict=True):
        if len(found.clauses(text)) != len(sided.at) + len(sided.back):
            raise UsageError("bad-condition", f"{request.condition!r} is more than one expression of D")
    return ClauseProgram(found, tuple(numbers))


def _compile(
    requests: Sequence[ClauseRequest], texts: Sequence[ProgramText], pid: int, options: Options, world: World
) -> Compiled:  # fmt: skip
    try:
        return compile_programs(texts, Macros({"target": pid}), options, world)
    except DoesNotCompile as error:
        which = next((n for n, text in enumerate(texts) if text is error.wrong.text), 0)
        what = f"the condition {requests[which].condition!r} is no expression of D here: {error}"
        hint = "there are arg0 to arg9, pid, tid, execname and others (docs/d/variables.md)"
        raise UsageError("bad-condition", what, hint) from None


def _clauses(number: int, request: ClauseRequest, pid: int, depth: int) -> tuple[list[str], list[str]]:
    """The text of the clauses at the request's points, and of those at the returns of its calls."""
    here = described(request.where, pid)
    guard = f"/({request.condition})/ " if request.condition else ""
    if not request.is_timed:
        return [f"{here} {guard}{{ {_action(request, depth)} }}"], []
    # The stack pointer tells calls apart, also if one is left by an exception: at the return it is what it was at the
    # entry.
    began = f"self->gilk_began{number}[{_SP}]"
    at = [f"{here} {{ {began} = (uint64_t)0; }}"] if guard else []  # the first assignment gives the variable its type
    at.append(f"{here} {guard}{{ {began} = timestamp; }}")
    back = described(request.where, pid, "return")
    long = f" && timestamp - {began} >= {request.longer_than}" if request.longer_than else ""
    done = _action(request, depth) if request.instrument is ClauseInstrument.STACK else f"trace({_SP}); trace({began});"
    return at, [f"{back} /{began}{long}/ {{ {done} }}", f"{back} {{ {began} = 0; }}"]


def _action(request: ClauseRequest, depth: int) -> str:
    named = isinstance(request.where, NamedPoint)
    match request.instrument:
        case ClauseInstrument.COUNT:
            return f"@{COUNTS}[id] = count();"
        case ClauseInstrument.STACK:
            return f"@{STACKS}[id, ustack({depth})] = count();"
        case ClauseInstrument.ARGS:
            words = [f"arg{n}" for n in range(6)] if named else [f"uregs[R_{name}]" for name in _ARGUMENTS]
        case ClauseInstrument.REGS:
            words = [f"uregs[R_{name}]" for name in REGISTERS]
        case _:
            words = []
    return " ".join(f"trace({word});" for word in (_SP, *words))


def described(where: object, pid: int, side: str = "") -> str:
    """The description of points in D; types of arguments are found by it. ``side``: replaces the point's own."""
    if isinstance(where, NamedPoint) and where.kind == "usdt":
        return _NO_LETTER.sub("?", f"{where.provider}{pid}:::{where.name}")
    if isinstance(where, NamedPoint):
        return _NO_LETTER.sub("?", f"syscall::{where.name}:{side or where.side}")
    image, function = getattr(where, "image", ""), getattr(where, "function", "")
    name = side or getattr(where, "where", "")
    if name not in ("entry", "return"):
        return f"pid{pid}:{_NO_LETTER.sub('?', image or 'a.out')}::0"  # there are no arguments, so no types
    return _NO_LETTER.sub("?", f"pid{pid}:{image or 'a.out'}:{function}:{name}")
