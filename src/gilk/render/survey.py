# SPDX-License-Identifier: LGPL-2.1-or-later
"""A survey as JSON and as text, with a sentence for each kind of refusal (docs/refusals.md has a paragraph)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gilk.image.stripped import is_stripped, remark
from gilk.render.names import learn, readable
from gilk.render.text import cell, plural, table
from gilk.splice.figures import FunctionRow, Survey, refused, spliced
from gilk.splice.plan import Refusal
from gilk.splice.tactics.table import NAMES
from gilk.splice.tactics.trap import TRAP

if TYPE_CHECKING:
    from gilk.image.dwarf.inlined_everywhere import InlinedEverywhere

Json = dict[str, Any]
Inlined = Mapping[str, "InlinedEverywhere"]  # the functions that are inlined at all calls, by image
Lines = Mapping[tuple[str, int], str]  # the file and line as text, by image and address

_MOST_IMAGES: Final = 8  # the most images that have a line each

REASONS: Final = {
    Refusal.IN_ANOTHERS_WAY: "a probe of another session of the process would have to go",
    Refusal.NO_ROOM: "the instructions are too short, and there is no free place for a jump within their reach",
    Refusal.RSEQ: "in a restartable sequence, which the kernel restarts by address",
    Refusal.UNKNOWN_JUMPS: "the function has a jump of unknown target, which might land within a splice",
    Refusal.PREEMPTED: "Go may suspend a goroutine at any instruction, and a splice would cover several here",
    Refusal.FAR_BRANCH: "a far or 16-bit branch, which would not be the same elsewhere",
    Refusal.TRANSACTION: "a hardware transaction, which a splice would abort",
    Refusal.CALL_RSP: "a call through the stack pointer, which a splice has moved",
    Refusal.OVERLAP: "something jumps into the bytes that a splice would cover",
    Refusal.OUT_OF_REACH: "no memory for patches within reach of a jump",
    Refusal.VDSO: "in the vdso, which belongs to the kernel",
    Refusal.NO_CODE: "not the beginning of an instruction that can be reached",
    Refusal.EXCEPTION: "ud2 or int3, which means something only at its own address",
    Refusal.INLINED_LOOP: "a loop of the inlined function begins with its first instruction, which runs once a round",
    Refusal.INLINED_COPIES: "the compiler has the beginning of the inlined function there more than once",
    Refusal.INLINED_ENTRY: "it is not known where a call of the inlined function begins",
    Refusal.INLINED_CALL: "an inlined function has no call there, with arguments that could be looked at",
    Refusal.INLINED_PART: "the function is inlined in itself there, which may be a call, or a part of one",
    Refusal.INLINED_MORE: "there may be more places where the function is inlined than were looked for",
    Refusal.INLINED_EXIT: "it is not known where a call of the inlined function ends, or nothing can be put there",
    Refusal.INLINED_WITHIN: "the copy does not show which function has called it",
    Refusal.RESULT_LOST: "the result of the call is in no place that is known where the call is left",
    Refusal.ARGUMENT_LOST: "the argument is nowhere where gilk could read it when the call begins",
    Refusal.ARGUMENT_KIND: "the argument is in no register of a call, or the number of the register is not known",
    Refusal.BLACKLISTED: "the kernel forbids probes there: entry code, and what handles traps",
    Refusal.UNSAFE: "gilk itself, or the patching of code, depends on this function",
    Refusal.IDLE: "runs while the processor idles, when RCU does not watch it",
    Refusal.THUNK: "a retpoline, a return thunk or the trampoline of a static call",
    Refusal.FENTRY: "the first instruction of the function belongs to ftrace",
    Refusal.STATIC_KEY: "the kernel rewrites this instruction when a static key changes",
    Refusal.STATIC_CALL: "the kernel rewrites this instruction when a static call is pointed elsewhere",
    Refusal.FAULTS: "may fault, and the kernel looks up by address how to go on",
    Refusal.BUG: "the trap of a BUG or WARN, which the kernel looks up by address",
    Refusal.RUN_INTO: "the splice needs padding of which nobody can prove that nothing runs into it",
    Refusal.UNREAD: "the driver cannot read all of the function, and so not what jumps to here",
    Refusal.PROBED: "someone else's kprobe is in this function",
    Refusal.TAKEN: "another session's splice is there",
    Refusal.STALE: "the code has changed since it was read",
    Refusal.LEAVING: "of a module that is being loaded or unloaded",
    Refusal.DRIVER: "the driver's own check failed",
}


def to_json(
    survey: Survey, listing: bool = False, lines: Lines | None = None, inlined: Inlined | None = None
) -> Json:  # fmt: skip
    """The counts of all tactics, including those that do not occur; with ``listing`` also a row for each function, and
    the line where it begins if ``lines`` has that; and the functions in ``inlined``, by image.
    """
    found: Json = {
        "image": survey.image,
        "images": [
            {
                **{"image": p.image, "path": str(p.path), "build_id": p.build_id, "bias": p.bias},
                "stripped": is_stripped(p.table.functions),
            }
            for p in survey.parts
        ],
        "functions": survey.functions,
        "blocks": survey.blocks,
        "unresolved": survey.unresolved,
        "points": {"pre": _side(survey.pre), "post": _side(survey.post)},
        "refusals": survey.refusals,
        "seconds": round(survey.seconds, 3),
        "cached": survey.cached,
    }
    if listing:
        found["list"] = [_row(row, (lines or {}).get((row.image, row.address), "")) for row in survey.rows()]
    if inlined:
        found["inlined"] = {image: list(each.names) for image, each in inlined.items()}
    return found


def _side(counts: dict[str, int]) -> Json:
    return {**{tactic: counts.get(tactic, 0) for tactic in NAMES}, "refused": refused(counts)}


def _row(row: FunctionRow, line: str) -> Json:
    return {
        "image": row.image,
        "function": row.name,
        "address": row.address,
        "size": row.size,
        "blocks": row.blocks,
        "unresolved": row.unresolved,
        "points": {"pre": _present(row.pre), "post": _present(row.post)},
        "refusals": {reason: n for reason in Refusal if (n := row.pre.get(reason, 0) + row.post.get(reason, 0))},
        **({"source": line} if line else {}),
    }


def _present(counts: dict[str, int]) -> Json:
    tactics = {tactic: counts[tactic] for tactic in NAMES if tactic in counts}
    return {**tactics, "refused": refused(counts)} if refused(counts) else tactics


def to_text(
    survey: Survey, listing: bool = False, lines: Lines | None = None, terminal: bool | None = None,
    inlined: Inlined | None = None,
) -> str:  # fmt: skip
    """The survey as text for people; ends with a newline."""
    parts = [f"{line}\n" for line in _heading(survey)]
    if listing:
        parts += ["\n", _list(survey, lines or {}, terminal)]
        parts += [_without_code(image, each) for image, each in (inlined or {}).items()]
    parts += ["\n", _totals(survey, terminal)]
    parts += [f"{line}\n" for line in _reasons(survey)]
    took = "from the cache" if survey.cached else f"took {survey.seconds:.1f} s"
    return "".join([*parts, f"{took}\n"])


def _heading(survey: Survey) -> Iterator[str]:
    parts = survey.parts if len(survey.parts) <= _MOST_IMAGES else survey.parts[:1]
    for part in parts:
        where = f", loaded at {part.bias:#x}" if part.bias else ""
        yield f"{cell(part.image)}: {cell(part.path)}{where}"
    if parts is not survey.parts:
        more = [part.image for part in survey.parts[1:]]
        yield f"and {len(more)} more: {cell(', '.join(more))}"
    yield f"{plural(survey.functions, 'function')}, {plural(survey.blocks, 'block')}"
    yield from map(cell, remark({part.image: part.table.functions for part in survey.parts}))
    if survey.unresolved:
        has = "has an indirect jump" if survey.unresolved == 1 else "have indirect jumps"
        yield f"{plural(survey.unresolved, 'function')} {has} of unknown target"


def _totals(survey: Survey, terminal: bool | None) -> str:
    used = [tactic for tactic in NAMES if survey.pre[tactic] or survey.post[tactic]]
    rows = []
    for name, counts in (("pre", survey.pre), ("post", survey.post)):
        share = _share(counts)
        rows.append([name, spliced(counts) + refused(counts), *(counts[t] for t in used), refused(counts), share])
    return table(["points", "all", *used, "refused", "without trap"], rows, terminal)


def _share(counts: dict[str, int]) -> str:
    """The percentage of points with a tactic other than trap, rounded down, so that 100 % means all of them."""
    everything = spliced(counts) + refused(counts)
    good = spliced(counts) - counts.get(TRAP.name, 0)
    return f"{good * 10_000 // everything / 100:.2f} %" if everything else ""


def _reasons(survey: Survey) -> Iterator[str]:
    for reason, count in sorted(survey.refusals.items(), key=lambda item: -item[1]):
        yield f"refused: {plural(count, 'point')}, {reason}: {REASONS[Refusal(reason)]}"


def _list(survey: Survey, lines: Lines, terminal: bool | None) -> str:
    several = len(survey.parts) > 1
    learn(row.name for row in survey.rows())
    rows = []
    for row in survey.rows():
        name = f"{row.image}:{readable(row.name)}" if several else readable(row.name)
        figures = [f"{row.address:#x}", row.size, row.blocks, _short(row.pre), _short(row.post)]
        rows.append([*figures, *_source(row, lines), name])
    source = ["source"] if lines else []
    return table(["address", "size", "blocks", "pre", "post", *source, "function"], rows, terminal)


def _without_code(image: str, found: InlinedEverywhere) -> str:
    names = ", ".join(cell(readable(name)) for name in found.names)
    return f"inlined at all calls{'' if found.complete else ', and perhaps more'}, in {cell(image)}: {names}\n"


def _source(row: FunctionRow, lines: Lines) -> list[str]:
    """The cell for the source line, in a list; [] if there are no lines at all."""
    return [lines.get((row.image, row.address), "")] if lines else []


def _short(counts: dict[str, int]) -> str:
    """The counts in short: 12 jump, 1 refused (no-room)."""
    tactics = [f"{counts[tactic]} {tactic}" for tactic in NAMES if tactic in counts]
    reasons = [str(reason) for reason in Refusal if reason in counts]
    if reasons:
        tactics.append(f"{refused(counts)} refused ({', '.join(reasons)})")
    return ", ".join(tactics)
