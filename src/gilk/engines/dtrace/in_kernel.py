# SPDX-License-Identifier: LGPL-2.1-or-later
"""Clauses in a kernel: the driver proves their code, and runs it at functions, at system calls, and by the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gilk.engines.dtrace.enabling import Enabled
from gilk.engines.dtrace.kernel_clauses import IN_REGISTERS, KernelClauses
from gilk.engines.dtrace.kernel_places import KernelPlace, attachments
from gilk.errors import TargetError, UsageError
from gilk.lang.d import tree
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.d.probes import DProbe
from gilk.lang.runtime import Does
from gilk.session.kernel_session import KernelSession, clock_of
from gilk.session.request import FiresSite, WantedSite
from gilk.targets.call_ends import COME_FIRST, STEPS
from gilk.targets.kernel.d_messages import (
    NOWHERE,
    SPECULATIONS,
    CodeVerdict,
    DriverProgram,
    ProcessImage,
    SiteKind,
    UserFire,
)
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_errors import uprobe_refusal
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.kernel.users import is_stopped
from gilk.trace.clock import Clock
from gilk.trace.d.copied import CopiedMemory
from gilk.trace.d.layout import LAYOUT_FIELDS, MemoryLayout

_OF_POINTS = 5  # arguments of a tracepoint that are in registers


def _cannot_fire(fire: UserFire, used: frozenset[int]) -> str:
    """The reason why a place cannot give what clauses use; "" if it can."""
    given = fire.given.arguments if fire.given is not None else ()
    missing = next((number for number in sorted(used) if number < len(given) and given[number] is None), None)
    if missing is not None:
        return f"arg{missing} is where it cannot be fetched from"
    return "its semaphore is not in the data of the file" if fire.semaphore == NOWHERE else ""


def _comes_later(row: tuple[DProbe, UserFire]) -> int:
    """The rank of a uprobe: at one instruction, the kernel runs the handler first that was registered last
    (kernel/events/uprobes.c, consumer_add)."""
    role = row[1].role
    return 2 if role in COME_FIRST else 0 if role in STEPS else 1


def _cut(refused: Mapping[int, str], places: Iterable[KernelPlace]) -> Iterator[tuple[DProbe, str]]:
    """The probes that fire at a jump, since a place where the call may end was ``refused``, with the reasons."""
    for place in places:
        why = next((refused[each] for each in place.until if each in refused), "")
        if why:
            yield from (
                (probe, f"{why} where its calls end after the jump at {place.point.label}") for probe in place.probes
            )


class InKernel:
    """One program's use of the driver. Raises TargetError as Driver does."""

    def __init__(
        self, target: KernelTarget, program: tree.Program, enabled: Enabled, options: Options, world: World
    ) -> None:
        self._target, self._enabled = target, enabled
        self._clauses = KernelClauses(target, program, enabled, world)
        self._code = self._clauses.code(program, options)
        self._driver = Driver(target.link)
        self._program = DriverProgram(self._driver)
        self._session: KernelSession | None = None  # exists once probes are in; it uses the same client of the driver
        self._clock = clock_of(self._driver)
        self.parts = self._code.parts
        self.aggregations = self._code.aggregations

    @property
    def text(self) -> str:
        """The code as text, an instruction a line."""
        return self._code.listing()

    @property
    def keeps(self) -> bool:
        """Whether there are keyed variables besides the program's."""
        return self._clauses.keeps

    @property
    def processors(self) -> int:
        return self._driver.hello.cpus

    @property
    def clock(self) -> Clock:
        return self._clock

    def load(self, layout: MemoryLayout, clausetime: int, watched: bool) -> CopiedMemory:
        """Load the program; returns a copy of its memory. ``watched``: the driver ends the program if gilk falls
        silent.

        Raises UsageError `not-in-kernel`, `clause-too-long`, TargetError `driver-refuses-code`.
        """
        if layout.speculations > SPECULATIONS:
            what = f"nspec is {layout.speculations}, and in a kernel at most {SPECULATIONS}"
            raise UsageError("not-in-kernel", what, "docs/limits.md lists what there is")
        fields = [int(getattr(layout, name)) for name in LAYOUT_FIELDS]
        verdict, where = self._program.load(self._code, fields, clausetime, watched)
        clause = self._code.clause_at(where)
        if verdict is CodeVerdict.TOO_LONG:
            what = f"clause {clause} may take more than {clausetime} instructions"
            raise UsageError("clause-too-long", what, "-x clausetime=N allows more, while interrupts are off")
        if verdict is not CodeVerdict.SOUND:
            what = f"the driver refuses the code of clause {clause}: {verdict.name.lower().replace('_', ' ')}"
            raise TargetError("driver-refuses-code", what)
        speculates = bool(self._clauses.does & Does.SPECULATES)
        return CopiedMemory(layout, self._program, speculates)

    @property
    def wall(self) -> int:
        """ns from 1970 to 0 of the machine's CLOCK_MONOTONIC."""
        return self._program.status().wall

    @property
    def aborted(self) -> bool:
        """Whether the driver has ended the program because gilk fell silent."""
        return bool(self._program.status().aborted)

    @property
    def stopped(self) -> tuple[tuple[int, ...], bool]:
        """The pids of processes that clauses have stopped and that are still stopped; and whether there may be more."""
        status = self._program.status()
        return tuple(pid for pid in status.stopped if is_stopped(self._target.link, pid)), status.more

    @property
    def missed(self) -> tuple[int, int]:
        """How often clauses did not run so far: since other clauses were running there, and for lack of stack."""
        status = self._program.status()
        return status.nested, status.shallow

    def image(self) -> ProcessImage | None:
        """A process image that records refer to and that was not returned yet; None if there is no other."""
        return self._program.image()

    def now(self) -> int:
        """The present value of the counter that time stamps are taken from."""
        return self._driver.status().tsc

    def insert(self) -> list[tuple[DProbe, str]]:
        """Put all probes in; returns those that are refused, with the reasons."""
        refused: dict[DProbe, str] = {}
        self._insert_sites(self._clauses.places(refused), refused)
        self._insert_points(refused)
        self._insert_events(refused)
        self._insert_uprobes(refused)
        return list(refused.items())

    def _insert_sites(self, places: list[KernelPlace], refused: dict[DProbe, str]) -> None:
        """Attach the clauses of places in the kernel's code, and make the sites that no program has there yet; adds
        refusals to ``refused``. Sites come first: what is done at one depends on which there are."""
        known = list(zip(places, self._program.find(place.at for place in places), strict=True))
        fresh = [place for place, site in known if not site]
        made = self._make_sites(fresh)
        gone = {at: why for at, (_, why) in made.items() if why}
        for place in fresh:
            if why := gone.get(place.at):
                refused.update((one, f"{why} at {place.point.label}") for one in place.probes)
        refused.update(_cut({address: why for (address, _), why in gone.items()}, places))
        sites = {site or made[place.at][0]: place for place, site in known if place.at not in gone}
        self._program.attach(attachments(sites, gone.keys()))
        self._program.force([number for number, why in made.values() if not why])

    def _make_sites(self, places: list[KernelPlace]) -> dict[tuple[int, SiteKind], tuple[int, str]]:
        """Make a site at each place; returns by place its number, and the reason if it is refused, else ""."""
        if not places:
            return {}
        self._session = KernelSession(self._target, points=len(places))
        loaded = self._target.loaded()[0]
        first = self._program.sites(len(places))
        wanted = [WantedSite(loaded, place.part, place.point, FiresSite(n)) for n, place in enumerate(places, first)]
        inserted = self._session.insert_sites(wanted)
        rows = enumerate(zip(places, inserted, strict=True), first)
        return {place.at: (number, str(probe.refusal or "")) for number, (place, probe) in rows}

    def _insert_points(self, refused: dict[DProbe, str]) -> None:
        """Attach the clauses of tracepoints; adds refusals to ``refused``."""
        for probe, made in self._enabled.in_kernel:
            if not made.point or self._clauses.lacks_types(probe):
                continue
            deep = any(number >= _OF_POINTS for number in self._clauses.used(probe).arguments)
            try:
                self._program.point(made.point, self._clauses.group(probe), probe.number, deep, made.bios)
            except TargetError as error:
                refused[probe] = f"the driver cannot reach the tracepoint: {error.message}"

    def _insert_events(self, refused: dict[DProbe, str]) -> None:
        """Attach the clauses at events of tracefs; adds refusals to ``refused``."""
        for probe, _ in self._enabled.in_kernel:
            number = 0 if self._clauses.lacks_types(probe) else self._clauses.event(probe)
            if not number:
                continue
            try:
                self._program.record(number, self._clauses.group(probe), probe.number)
            except TargetError as error:
                refused[probe] = f"the driver cannot reach the event: {error.message}"

    def _insert_uprobes(self, refused: dict[DProbe, str]) -> None:
        """Attach the clauses at places in the code of processes (uprobes); adds refusals to ``refused``."""
        made: dict[UserFire, str] = {}
        for probe, fire in sorted(self._user_fires(), key=_comes_later):
            used = self._clauses.used(probe).arguments
            placed = self._placed(probe, fire, used)
            if placed not in made:
                made[placed] = _cannot_fire(fire, used) or self._uprobe_refused(placed)
            if made[placed]:
                refused[probe] = made[placed]

    def _user_fires(self) -> Iterator[tuple[DProbe, UserFire]]:
        return ((probe, fire) for probe, made in self._enabled.in_kernel for fire in made.user)

    def _placed(self, probe: DProbe, fire: UserFire, used: frozenset[int]) -> UserFire:
        """The attachment at a place: the probe's clauses, or a step for the calls of any probe."""
        if fire.role in STEPS:
            return replace(fire, start=0)
        deep = fire.given is None and any(number >= IN_REGISTERS for number in used)
        return replace(fire, group=self._clauses.group(probe, fire.given), probe=probe.number, deep=deep)

    def _uprobe_refused(self, fire: UserFire) -> str:
        """Put a uprobe in; returns the reason if it is refused, else ""."""
        try:
            self._program.uprobe(fire)
            return ""
        except OSError as error:
            return f"{uprobe_refusal(error)} at {fire.offset:#x} of the file"

    def start_clocks(self) -> None:
        """Start the clocks of tick-N and profile-N, and what counts events for cpc."""
        for probe, tick in self._enabled.ticks:
            if tick.counted is not None and probe.provider == "cpc":
                self._program.count(tick.counted, self._clauses.group(probe), probe.number)
                continue
            self._program.clock(tick.period, self._clauses.group(probe), probe.number, tick.samples)

    def fire(self, probe: DProbe, arguments: Sequence[int], always: bool) -> None:
        self._program.fire(self._clauses.group(probe), probe.number, arguments, always)

    def take_out(self) -> bool | None:
        """Take the probes out; the program stays loaded.

        Returns whether the kernel's code is what it was; None if another program shares some of the sites, which then
        stay as long as that program.
        """
        if self._session is None:
            return True
        restored = self._session.take_out()
        return None if not restored and self._program.status().shared else restored

    def close(self) -> None:
        """Let go of the driver, which frees everything that is left."""
        if self._session is not None:
            self._session.close()
        self._target.link.close_driver()
