# SPDX-License-Identifier: LGPL-2.1-or-later
"""Enabling finds the probes that a program is about, and which of its clauses each of them runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import field
from types import ModuleType
from typing import TYPE_CHECKING

from gilk.engines.dtrace.renamed import Renamed
from gilk.lang.d import tree
from gilk.lang.d.probes import Description, DProbe, Key, described
from gilk.providers import IN_KERNEL, IN_PROCESS, own
from gilk.providers.clock import Tick, ticks
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.providers.kernel.probe import HasKernel, KernelProbe, KernelProvider
    from gilk.providers.probe import ProcessProbe, Provider
    from gilk.targets.base import Target


_LOOKED_AT = 8  # images in which a function that is not there may be inlined
#: Providers that DTrace has besides.
_OF_THE_KERNEL = frozenset(("fbt", "rawfbt", "sdt", "rawtp", "io", "sched", "lockstat", "ip", "tcp", "udp", "cpc"))
_OF_PROCESSES = ("pid", "usdt", "proc")
_NOT_BESIDE = "in a program that is about a kernel, pid and USDT are the only providers of processes"


class NoSuchProbe(Exception):
    """``clause``: the one whose description matches none, ``line`` where that stands. ``tag``: by DTrace's names."""

    def __init__(self, clause: tree.Clause, description: Description, why: str = "", tag: str = "") -> None:
        """``why``: if it is known why; with a ``tag``, that is all there is to say."""
        reason = f": {why}" if why else ""
        what = f"probe description {description} does not match any probes{reason}"
        if tag:
            what = why
        elif description.name.isdigit() and not description.number:
            what = f"invalid probe identifier {description.name}: Unknown probe identifier"
        super().__init__(what)
        self.tag = tag or "D_PDESC_ZERO"
        self.clause = clause.number
        lines = dict(zip(map(described, clause.probes), clause.lines, strict=False))
        self.line = lines.get(description, 0)


@dataclass
class Enabled:
    """``clauses``: for the number of each probe, those that it runs, in order. ``counts``: for each clause, how many
    probes its descriptions match, those that they have in common counted for each; ``matched``: the same for each of
    them. ``unmatched``: descriptions of none.
    """

    probes: dict[int, DProbe] = field(default_factory=lambda: {probe.number: probe for probe in own.PROBES})
    clauses: dict[int, list[int]] = field(default_factory=dict)
    ticks: list[tuple[DProbe, Tick]] = field(default_factory=list)
    in_process: list[tuple[DProbe, ProcessProbe]] = field(default_factory=list)
    in_kernel: list[tuple[DProbe, KernelProbe]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    matched: dict[int, list[int]] = field(default_factory=dict)
    unmatched: list[Description] = field(default_factory=list)
    _made: dict[tuple[Key, int], DProbe] = field(default_factory=dict)
    _places: dict[Key, dict[int, int]] = field(default_factory=dict)

    def beside(self) -> Enabled:
        """Nothing is enabled; probes of the same names have the same numbers as here."""
        return Enabled(probes=self.probes, _made=self._made)

    def number(self, key: Key, place: int = 0) -> tuple[DProbe, bool]:
        """The probe of that name at that place, and whether it is new: those that two descriptions mean are one.

        Two functions may have one name in the source, as the variants of a constructor have.
        """
        places = self._places.setdefault(key, {})
        fresh, which = place not in places, places.setdefault(place, len(places))
        if (key, which) not in self._made:
            probe = DProbe(len(self.probes) + 1, *key)
            self._made[key, which] = self.probes[probe.number] = probe
        return self._made[key, which], fresh

    def names(self) -> list[Key]:
        """By number, from 1."""
        found = (self.probes[number] for number in sorted(self.probes))
        return [(probe.provider, probe.module, probe.function, probe.name) for probe in found]

    def fires_here(self, probe: DProbe) -> bool:
        """Whether it is the consumer that lets it fire."""
        return probe in own.PROBES or any(probe == each for each, _ in self.ticks)

    def groups(self) -> list[tuple[int, ...]]:
        """Lists of clauses that probes run."""
        return sorted({tuple(each) for each in self.clauses.values()})


def enable(
    program: tree.Program,
    process: Target | None,
    zero: bool,
    kernel: HasKernel | None = None,
    known: Enabled | None = None,
    renamed: Renamed | None = None,
) -> Enabled:
    """``zero``: descriptions that match nothing are not an error (-Z). ``kernel``: with one, no probe is in a process.
    ``known``: where the same program is enabled in another process; ``renamed``: how its probes go by the same names,
    where programs to come may have what there is none of here.

    Raises NoSuchProbe.
    """
    enabled = Enabled() if known is None else known.beside()
    for clause in program.clauses:
        enabled.matched[clause.number] = []
        for text in clause.probes:
            description = described(text)
            matched = list(_matching(enabled, description, process, kernel, renamed or Renamed()))
            if not matched and not zero and (renamed is None or not _may_come(description)):
                raise missing(clause, description, process, kernel)
            if not matched:
                enabled.unmatched.append(description)
            enabled.matched[clause.number].append(len(matched))
            for probe in matched:
                run = enabled.clauses.setdefault(probe.number, [])
                if clause.number not in run:
                    run.append(clause.number)
        enabled.counts[clause.number] = sum(enabled.matched[clause.number])
    return enabled


def _may_come(description: Description) -> bool:
    """Whether a program that is executed later may have such probes."""
    others = ("dtrace", "profile", *_OF_THE_KERNEL)
    return not description.number and description.provider not in others


def _matching(
    enabled: Enabled, description: Description, process: Target | None, kernel: HasKernel | None, renamed: Renamed
) -> Iterable[DProbe]:  # fmt: skip
    yield from (probe for probe in own.PROBES if description.matches(probe))
    if description.number:
        return  # only those have numbers that are known beforehand
    tick = ticks(description)
    if tick is not None:
        probe, fresh = enabled.number(tick.key)
        if fresh:
            enabled.ticks.append((probe, tick))
        yield probe
    if kernel is not None:
        yield from _matching_there(enabled, description, kernel)
    if process is None:
        return
    for provider in _in_process():
        for found in provider(process, renamed.there(description)):
            probe, fresh = enabled.number(renamed.back(found.key), found.sites[0].start if found.sites else 0)
            if fresh:
                enabled.in_process.append((probe, found))
            yield probe


def _matching_there(enabled: Enabled, description: Description, kernel: HasKernel) -> Iterable[DProbe]:
    for file in IN_KERNEL:
        provider: KernelProvider = _module(file).probes
        for found in provider(kernel, description):
            probe, fresh = enabled.number(found.key, found.number)
            if fresh:
                enabled.in_kernel.append((probe, found))
            yield probe


def missing(
    clause: tree.Clause, description: Description, process: Target | None, kernel: HasKernel | None = None
) -> NoSuchProbe:
    """The mistake in a description of a clause that matches nothing."""
    from gilk.providers import pid_mistakes  # here: most programs have probes

    why = _reason(description, process, kernel)
    wrong = None if kernel is not None or why else pid_mistakes.mistake(process, description)
    if wrong is not None:
        return NoSuchProbe(clause, description, wrong.message, wrong.tag)
    return NoSuchProbe(clause, description, why)


def _reason(description: Description, process: Target | None, kernel: HasKernel | None) -> str:
    """Why there are no such probes, of those that DTrace has."""
    provider = description.provider
    if kernel is not None and not description.number:
        return _reason_there(description, kernel)
    if description.number:
        return "only dtrace's own probes have numbers beforehand, others as they are enabled: say their names"
    if provider in _OF_THE_KERNEL:
        return "it is about a kernel: load the driver (gilk driver load), or try --on lab"
    if process is None and provider != "pid0":
        known = provider and provider.rstrip("0123456789") in IN_PROCESS.values()
        return "that takes a process, by -p or -c" if known else ""
    if process is None:
        return ""
    if provider.startswith("pid"):
        if provider[3:].isdigit() and int(provider[3:]) not in (0, process.pid):
            return f"process {process.pid} is traced, and no other"
        return _inlined(description, process)
    files = (_module(file) for file, name in IN_PROCESS.items() if name == provider)
    return next((getattr(each, "NOT_SEEN", {}).get(description.name, "") for each in files), "")


def _reason_there(description: Description, kernel: HasKernel) -> str:
    provider = description.provider
    if provider.startswith("pid"):
        from gilk.providers.kernel import pid  # here: few programs are about a kernel and processes

        return pid.missing(kernel.users, description)
    files = (_module(file) for file, name in IN_KERNEL.items() if name == provider)
    reason = next((getattr(each, "NOT_SEEN", {}).get(description.name, "") for each in files), "")
    if reason:
        return str(reason)
    if provider in _OF_THE_KERNEL and provider not in IN_KERNEL.values():
        return "this provider is not there yet"
    if provider.rstrip("0123456789") in _OF_PROCESSES and provider not in IN_KERNEL.values():
        return _NOT_BESIDE
    from gilk.providers.kernel import usdt  # here: as pid

    return usdt.missing(kernel.users, description)


def _inlined(description: Description, process: Target) -> str:
    from gilk.image.lookup import is_exact
    from gilk.session import inlined

    if not is_exact(description.function):
        return ""
    meant = [loaded for loaded in process.loaded() if loaded.is_meant(description.module)]
    found = [inlined.inlined(process, loaded, description.function) for loaded in meant[:_LOOKED_AT]]
    return next((f"{each.function} is inlined {each.where}" for each in found if each is not None), "")


def _in_process() -> tuple[Provider, ...]:
    return tuple(_module(file).probes for file in IN_PROCESS)


def _module(file: str) -> ModuleType:
    """The module of a provider. The modules that look for probes in processes take long to import, and programs without
    a process need none."""
    return importlib.import_module(f"gilk.providers.{file}")
