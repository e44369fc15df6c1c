# SPDX-License-Identifier: LGPL-2.1-or-later
"""Enabling: finding the probes that a program describes, and the clauses that each of them runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import field
from types import ModuleType
from typing import TYPE_CHECKING

from gilk.collector import without_collector
from gilk.engines.dtrace.renamed import Renamed
from gilk.lang.d import tree
from gilk.lang.d.probes import LEFT_OUT, Description, DProbe, Key, described
from gilk.providers import IN_KERNEL, IN_PROCESS, cpc, own
from gilk.providers.clock import Tick, ticks
from gilk.targets.processor_samples import Counted, can_count
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.providers.kernel.probe import HasKernel, KernelProbe, KernelProvider
    from gilk.providers.probe import ProcessProbe, Provider
    from gilk.targets.base import Target


_LOOKED_AT = 8  # how many images to search for inlined copies of a function that is not there
#: Providers of DTrace that are about a kernel.
_OF_THE_KERNEL = frozenset(("fbt", "rawfbt", "sdt", "rawtp", "io", "sched", "lockstat", "ip", "tcp", "udp"))
_OF_PROCESSES = ("pid", "usdt", "proc")
_NOT_BESIDE = "in a program that is about a kernel, pid and USDT are the only providers of processes"


class NoSuchProbe(Exception):
    """A description matches no probe. ``clause``: the number of its clause; ``line``: the description's line; ``tag``:
    DTrace's name of the error; ``why``: the reason, '' if it is not known."""

    def __init__(self, clause: tree.Clause, description: Description, why: str = "", tag: str = "") -> None:
        """``why``: the reason, if it is known; with a ``tag``, it is the whole message."""
        reason = f": {why}" if why else ""
        what = f"probe description {description} does not match any probes{reason}"
        if tag:
            what = why
        elif description.name.isdigit() and not description.number:
            what = f"invalid probe identifier {description.name}: Unknown probe identifier"
        super().__init__(what)
        self.tag = tag or "D_PDESC_ZERO"
        self.why = why
        self.clause = clause.number
        lines = dict(zip(map(described, clause.probes), clause.lines, strict=False))
        self.line = lines.get(description, 0)


@dataclass
class Enabled:
    """The enabled probes of a program. ``clauses``: by number of a probe, the clauses that it runs, in order.

    ``matched``: by clause, how many probes each of its descriptions matches; ``counts``: their sums, in which a probe
    counts once for each description. ``unmatched``: the descriptions that match nothing. ``left_out``: how many numbers
    are between those of dtrace's own probes and those of others.
    """

    probes: dict[int, DProbe] = field(default_factory=lambda: {probe.number: probe for probe in own.PROBES})
    clauses: dict[int, list[int]] = field(default_factory=dict)
    ticks: list[tuple[DProbe, Tick]] = field(default_factory=list)
    in_process: list[tuple[DProbe, ProcessProbe]] = field(default_factory=list)
    in_kernel: list[tuple[DProbe, KernelProbe]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    matched: dict[int, list[int]] = field(default_factory=dict)
    unmatched: list[Description] = field(default_factory=list)
    left_out: int = LEFT_OUT
    _made: dict[tuple[Key, int], DProbe] = field(default_factory=dict)
    _places: dict[Key, dict[int, int]] = field(default_factory=dict)

    def beside(self) -> Enabled:
        """An Enabled in which nothing is enabled yet, but probes get the same numbers as here."""
        return Enabled(probes=self.probes, left_out=self.left_out, _made=self._made)

    def number(self, key: Key, place: int = 0) -> tuple[DProbe, bool]:
        """The probe of that name at that place, and whether it is new: two descriptions may match the same probe.

        Two functions may have the same name in the source, as the variants of a constructor; they are two probes.
        """
        places = self._places.setdefault(key, {})
        fresh, which = place not in places, places.setdefault(place, len(places))
        if (key, which) not in self._made:
            probe = DProbe(len(self.probes) + 1 + self.left_out, *key)
            self._made[key, which] = self.probes[probe.number] = probe
        return self._made[key, which], fresh

    def names(self) -> list[Key]:
        """The names of all probes, in the order of their numbers."""
        found = (self.probes[number] for number in sorted(self.probes))
        return [(probe.provider, probe.module, probe.function, probe.name) for probe in found]

    def fires_here(self, probe: DProbe) -> bool:
        """Whether the consumer fires the probe itself: dtrace's own probes, and those of the clock."""
        return probe in own.PROBES or any(probe == each for each, _ in self.ticks)

    def groups(self) -> list[tuple[int, ...]]:
        """The distinct lists of clauses that probes run."""
        return sorted({tuple(each) for each in self.clauses.values()})


@without_collector()
def enable(
    program: tree.Program,
    process: Target | None,
    zero: bool,
    kernel: HasKernel | None = None,
    known: Enabled | None = None,
    renamed: Renamed | None = None,
    listing: bool = False,
) -> Enabled:
    """Find the probes of a program. ``zero``: descriptions that match nothing are no error (-Z).

    ``kernel``: if given, all probes are in the kernel, none in a process. ``known``: the result for another process,
    whose numbers are kept. ``renamed``: maps names of probes between processes of a tree; if given, descriptions may
    also match nothing, as later programs may have such probes. ``listing``: without a process, those of any process
    are meant, which have only names. Raises NoSuchProbe.
    """
    enabled = Enabled(left_out=0 if kernel else LEFT_OUT) if known is None else known.beside()
    for clause in program.clauses:
        enabled.matched[clause.number] = []
        for text in clause.probes:
            description = described(text)
            matched = list(_matching(enabled, description, process, kernel, renamed or Renamed()))
            if listing and process is None:
                matched += (
                    _of_any_process(enabled, description)
                    if kernel is None
                    else _counted(enabled, description, kernel.counts)
                )
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
    if program.locals and process is not None:
        from gilk.engines.dtrace import local_sites  # imported here: few programs need it

        placed = local_sites.with_locals(enabled.in_process, enabled.clauses, program, process)
        enabled.in_process = list(placed)
    if process is not None and not listing and any(made.calls for _, made in enabled.in_process):
        from gilk.engines.dtrace.followed_calls import FollowedCalls  # imported here: few programs need it

        enabled.in_process = list(FollowedCalls(process).placed(enabled.in_process))
    return enabled


def _may_come(description: Description) -> bool:
    """Whether a program that is executed later may have probes that match the description."""
    others = ("dtrace", "profile", "cpc", *_OF_THE_KERNEL)
    return not description.number and description.provider not in others


def _matching(
    enabled: Enabled, description: Description, process: Target | None, kernel: HasKernel | None, renamed: Renamed
) -> Iterable[DProbe]:  # fmt: skip
    yield from (probe for probe in own.PROBES if description.matches(probe))
    if description.number:
        return  # only dtrace's own probes have numbers that are known beforehand
    tick = ticks(description) or cpc.counted(description, can_count if kernel is None else kernel.counts)
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


def _of_any_process(enabled: Enabled, description: Description) -> list[DProbe]:
    from gilk.providers import syscall  # imported here: few programs need it

    names = () if description.number else tuple(syscall.names(description))
    return [*(enabled.number(key)[0] for key in names), *_counted(enabled, description, can_count)]


def _counted(enabled: Enabled, description: Description, counts: Callable[[Counted], bool]) -> list[DProbe]:
    """A probe of each event that processors count."""
    names = () if description.number else cpc.names(description, counts)
    return [enabled.number(key)[0] for key in names]


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
    """The error for a description that matches nothing."""
    from gilk.providers import pid_mistakes  # imported here: it is needed only upon mistakes

    why = _reason(description, process, kernel)
    wrong = None if kernel is not None or why else pid_mistakes.mistake(process, description)
    if wrong is not None:
        return NoSuchProbe(clause, description, wrong.message, wrong.tag)
    return NoSuchProbe(clause, description, why)


def _reason(description: Description, process: Target | None, kernel: HasKernel | None) -> str:
    """The reason why a description that is valid in DTrace matches nothing here; "" if there is none to tell."""
    provider = description.provider
    if kernel is not None and not description.number:
        return _reason_there(description, kernel)
    if description.number:
        return "only dtrace's own probes have numbers beforehand, others as they are enabled: say their names"
    if provider == "cpc":
        return cpc.missing(description)
    if provider in _OF_THE_KERNEL:
        return "it is about a kernel: load the driver (gilk driver load), or try --on lab"
    if process is None and provider != "pid0":
        known = provider and provider.rstrip("0123456789") in IN_PROCESS.values()
        known = known and (provider != "syscall" or bool(_of_any_process(Enabled(), description)))
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
        from gilk.providers.kernel import pid  # imported here: few programs need it

        return pid.missing(kernel.users, description)
    if provider == "syscall":
        from gilk.providers.kernel import syscall  # imported here, as pid

        return syscall.missing(kernel, description)
    files = (_module(file) for file, name in IN_KERNEL.items() if name == provider)
    reason = next((getattr(each, "NOT_SEEN", {}).get(description.name, "") for each in files), "")
    if reason:
        return str(reason)
    if provider == "cpc":
        return cpc.missing(description)
    if provider.rstrip("0123456789") in _OF_PROCESSES and provider not in IN_KERNEL.values():
        return _NOT_BESIDE
    from gilk.providers.kernel import usdt  # imported here, as pid

    return usdt.missing(kernel.users, description)


def _inlined(description: Description, process: Target) -> str:
    from gilk.image.demangle import readable_in
    from gilk.image.lookup import is_exact
    from gilk.session import inlined

    meant = [loaded for loaded in process.loaded() if loaded.is_meant(description.module)][:_LOOKED_AT]
    if not is_exact(description.function):
        return inlined.hint(process, meant, description.function)
    found = [inlined.inlined(process, loaded, description.function) for loaded in meant]
    return next((f"{each.function} is inlined {readable_in(each.where)}" for each in found if each is not None), "")


def _in_process() -> tuple[Provider, ...]:
    return tuple(_module(file).probes for file in IN_PROCESS)


def _module(file: str) -> ModuleType:
    """The module of a provider. It is imported only now: modules that look for probes in processes take long to import,
    and programs without a process need none."""
    return importlib.import_module(f"gilk.providers.{file}")
