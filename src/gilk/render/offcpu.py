# SPDX-License-Identifier: LGPL-2.1-or-later
"""The places at which the threads of a process wait, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gilk.render.names import named
from gilk.render.question import ending
from gilk.render.text import listed, nanoseconds, plural, table
from gilk.targets.switches import Account, Switches
from gilk.trace.d.question import Answer
from gilk.trace.d.waits import Waits, by_caller, caller

Json = dict[str, Any]
_HEADERS = ("waits", "time", "longest", "system call", "called by")
_SHOWN = 12  # the most waiting threads that are named


def to_text(answer: Answer, account: Account, limit: int, stacks: bool, terminal: bool | None = None) -> str:
    """A row for each function and system call, at most ``limit`` (0: all), or with ``stacks`` for each stack; and the
    kernel's counts. Ends with a newline.
    """
    text = _stacks(answer, limit) if stacks else _rows(by_caller(answer.stacks), limit, terminal)
    return text + _counted(account) + ending(answer.restored, answer.notes)


def _rows(found: tuple[Waits, ...], limit: int, terminal: bool | None) -> str:
    shown = found[: limit or None]
    cells = [[w.waits, nanoseconds(w.time), nanoseconds(w.longest), w.call, named(w.caller)] for w in shown]
    text = table(_HEADERS, cells, terminal) if cells else "no wait has come to its end\n"
    return text + _more(len(found) - len(shown), "row")


def _stacks(answer: Answer, limit: int) -> str:
    shown = answer.stacks[: limit or None]
    text = "" if shown else "no wait has come to its end\n"
    for row in shown:
        waits, time, longest = row.numbers
        text += f"{plural(waits, 'wait')} in {row.key}, {nanoseconds(time)}, the longest {nanoseconds(longest)}\n"
        text += "".join(f"    {named(frame)}\n" for frame in row.stack)
    return text + _more(len(answer.stacks) - len(shown), "stack")


def _more(count: int, what: str) -> str:
    return f"and {plural(count, what)} more\n" if count else ""


def _counted(account: Account) -> str:
    total = account.total
    text = f"the kernel counts {plural(total.voluntary, 'wait')} of {plural(account.threads, 'thread')}, "
    text += f"{plural(total.involuntary, 'loss')} of the processor, "
    text += f"{plural(total.faults, 'page')} to be fetched"
    if total.ran is not None and total.delay is not None:
        text += f"; {nanoseconds(total.ran)} on processors, {nanoseconds(total.delay)} ready without one"
    text += "\n"
    if account.waiting:
        who = [f"{each.name} {each.tid} in {each.call}" for each in account.waiting]
        text += f"waiting at the end: {listed(who, _SHOWN)}\n"
    return text


def to_json(answer: Answer, account: Account) -> Json:
    """The answer as one object; times are in ns."""
    rows = [
        {"name": w.caller, "call": w.call, "waits": w.waits, "time": w.time, "longest": w.longest}
        for w in by_caller(answer.stacks)
    ]
    stacks = [
        {"name": caller(row.stack), "call": row.key, **_numbers(row.numbers), "stack": list(row.stack)}
        for row in answer.stacks
    ]
    found = {"rows": rows, "stacks": stacks, "counted": _total(account.total, account.threads)}
    found["waiting"] = [asdict(each) for each in account.waiting]
    return found | {"notes": list(answer.notes), "partial": answer.partial, "restored": answer.restored}


def _numbers(numbers: tuple[int, ...]) -> Json:
    return dict(zip(("waits", "time", "longest"), numbers, strict=True))


def _total(total: Switches, threads: int) -> Json:
    return {"threads": threads, **asdict(total)}
