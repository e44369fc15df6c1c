# SPDX-License-Identifier: LGPL-2.1-or-later
"""Woven aspects: reports as they come, counts and tables at the end, and what would be woven."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from gilk.errors import GilkError
from gilk.lang.aspect.woven import AspectCounts, DryShadow, WovenReport, WovenSummary, WovenTable
from gilk.render.text import cell, plural
from gilk.render.woven_tables import key_text, row_text, value_of


def report_text(report: WovenReport) -> str:
    return f"[{report.pid}] {cell(report.text)}"


def report_json(report: WovenReport) -> str:
    return json.dumps({"report": asdict(report)})


def begun_text(processes: Sequence[WovenSummary]) -> str:
    functions = plural(sum(one.functions for one in processes), "function")
    of_processes = [one for one in processes if one.pid]
    places = [plural(len(of_processes), "process")] if of_processes or len(processes) == len(of_processes) else []
    places += ["the kernel"] * (len(of_processes) < len(processes))
    return f"woven: {functions} in {' and '.join(places)}"


def begun_json(processes: Sequence[WovenSummary]) -> str:
    return json.dumps({"woven": {one.pid or "kernel": one.functions for one in processes}})


def refused_text(pid: int, error: GilkError) -> str:
    return f"process {pid} is not woven: {cell(error.message)} ({error.slug})"


def refused_json(pid: int, error: GilkError) -> str:
    return json.dumps({"refused": {"pid": pid, "slug": error.slug, "message": error.message}})


def under_way_text(names: Sequence[str]) -> str:
    return f"calls that were under way go on without advice: {', '.join(map(cell, names))}"


def under_way_json(names: Sequence[str]) -> str:
    return json.dumps({"under_way": list(names)})


def dry_text(found: Sequence[DryShadow]) -> str:
    """A line for each function that would be woven."""
    unknown = dict.fromkeys((one.pid, one.image) for one in found if one.copies is None)
    notes = (
        f"{_who(pid)}: {cell(image)}: nothing tells whether functions are inlined elsewhere\n" for pid, image in unknown
    )
    return "".join((*(f"{_dry(one)}\n" for one in found), *notes))


def _dry(one: DryShadow) -> str:
    if one.left_out:
        return f"{_who(one.pid)}: left out: {cell(one.left_out)}"
    elements = ", ".join(f"{each.aspect} {each.number} {each.moment}" for each in one.elements)
    elements = elements or "control flows ask whether it is under way"
    if one.accesses:
        elements += f" ({_accesses(one.accesses)})"
    if one.registers:
        elements += f" ({plural(one.registers, 'debug register')})"
    if one.also:
        elements += f"; it ends in jumps, and may return in {', '.join(map(cell, one.also))}"
    if one.advised_copies:
        elements += f"; {', '.join(map(cell, one.advised_copies))}"
    if one.walked:
        elements += f"; the stack is walked for {', '.join(map(cell, one.walked))}"
    if one.verified:
        elements += "; recorded calls are compared with the stack"
    if one.by_thread:
        elements += "; each hit asks whether its thread is a member"
    if one.tactics:
        elements += f"; spliced by {', '.join(f'{name} {number}' for name, number in one.tactics)}"
    if one.calls:
        elements += f"; the C uses {', '.join(map(cell, one.calls))}"
    if one.inside:
        threads = f"thread{'s' * (len(one.inside) > 1)} {', '.join(map(str, one.inside))}"
        elements += f"; {threads} in it now"
    why = f": refused, {cell(one.refused)}" if one.refused else ""
    return f"{_who(one.pid)}: {cell(one.image)}:{cell(one.function)}: {elements}{why}"


def _who(pid: int) -> str:
    """The process in words; the number 0 stands for the kernel."""
    return f"process {pid}" if pid else "the kernel"


def dry_json(found: Sequence[DryShadow]) -> str:
    return json.dumps(
        {"shadows": [asdict(one) | {"refused": one.refused or None, "tactics": dict(one.tactics)} for one in found]}
    )


def summary_text(
    processes: Sequence[WovenSummary], aspects: Sequence[AspectCounts], tables: Sequence[WovenTable]
) -> str:
    return "".join(f"{line}\n" for line in _summary(processes, aspects, tables))


def _summary(
    processes: Sequence[WovenSummary], aspects: Sequence[AspectCounts], tables: Sequence[WovenTable]
) -> Iterator[str]:
    for one in tables:
        yield f"{one.table.name}:"
        for row in one.rows:
            yield row_text(one.table, row)
        if one.lost:
            yield f"  {one.lost} not added: the table was full"
    for each in processes:
        yield from _of_process(each)
    for counts in aspects:
        yield f"{counts.name}: {_counted(counts)}"


def _of_process(one: WovenSummary) -> Iterator[str]:
    functions = [plural(one.functions, "function")] if one.functions or not (one.accesses or one.variables) else []
    accesses = [_accesses(one.accesses)] if one.accesses else []
    watched = [f"{plural(one.variables, 'variable')} by debug registers"] if one.variables else []
    yield f"{_who(one.pid)}: {', '.join((*functions, *accesses, *watched))}, {_restored(one)}"
    inside = "calls by advice itself" if one.pid else "calls amid others on a processor, or in NMIs"
    for number, what in ((one.inside, inside), (one.drops, "reports dropped: a buffer was full"),
                         (one.missed, "calls of threads without a buffer, at least"),
                         (one.skipped, "calls so deep within others with advice that it had no room")):  # fmt: skip
        if number:
            yield f"  {number} {what}"
    for note in one.notes:
        yield f"  {note}"


def _accesses(count: int) -> str:
    return f"{count} access{'' if count == 1 else 'es'}"


def _restored(one: WovenSummary) -> str:
    if one.restored is None:
        return "which has ended"
    return "restored" if one.restored else "not restored: code of it was changed by others"


def _counted(counts: AspectCounts) -> str:
    """The counts of an aspect; zeros are left out, except for matches. If it has one element, each match begins and
    ends an instance."""
    matched = f"matches {' '.join(map(str, counts.matches))}"
    told = ("name", "matches", *(("begun", "ended") if len(counts.matches) == 1 else ()))
    others = ((name, value) for name, value in asdict(counts).items() if name not in told)
    return ", ".join((matched, *(f"{name} {value}" for name, value in others if value)))


def summary_json(
    processes: Sequence[WovenSummary], aspects: Sequence[AspectCounts], tables: Sequence[WovenTable]
) -> str:
    """An object with ``processes``, ``aspects`` with the counts of each, and ``tables`` with rows of key and value."""
    rows = {
        one.table.name: {
            "lost": one.lost,
            "rows": [{"key": key_text(one.table, row), "value": value_of(one.table, row)} for row in one.rows],
        }
        for one in tables
    }
    counted = {"processes": [asdict(one) for one in processes], "aspects": [asdict(one) for one in aspects]}
    return json.dumps(counted | {"tables": rows})
