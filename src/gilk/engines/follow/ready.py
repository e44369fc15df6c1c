# SPDX-License-Identifier: LGPL-2.1-or-later
"""The first part of ``gilk trace``, done while the program runs undisturbed: functions are found, patches are written,
and gates are put where events are waited for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial

from gilk.engines.follow.adapt import Budget
from gilk.engines.follow.base import BaseFollower
from gilk.engines.follow.client import ClientFollower
from gilk.engines.follow.event_place import place_of
from gilk.engines.follow.refused import unended, unfollowed, without_entry
from gilk.engines.follow.scope import TraceScope
from gilk.engines.follow.throttle import Throttle
from gilk.engines.follow.watch import Watch
from gilk.errors import GilkError, ImageError, UsageError
from gilk.image.stripped import without_functions
from gilk.runs.run import Run
from gilk.runs.sample_columns import schema_of
from gilk.session import inlined
from gilk.session.kernel_session import KernelSession
from gilk.session.libraries import Libraries
from gilk.session.request import expand
from gilk.spec.event import Event, Exit, Now, Reach
from gilk.splice.template_build import Progress as Progressed
from gilk.targets.another_program import program_gone
from gilk.targets.base import Loaded
from gilk.targets.ended import unless_ended
from gilk.targets.process import Process
from gilk.trace.probes import RecordKind
from gilk.trace.traced import NEVER, Unended, Unfollowed
from gilk.values import dataclass

START, STOP, _LIBRARIES = 0, 1, 2  # gates
_HOLD = 10.0  # how many seconds the thread that starts the trace waits at most
_RING = 32 << 20
_KERNEL_RING = 16 << 20


@dataclass
class ReadyTrace(Run):
    """A trace of one or several processes that has been made ready."""

    start: Event = field(default_factory=lambda: Now("now"))
    stop: Event = field(default_factory=lambda: Exit("exit"))
    scope: TraceScope = field(default_factory=TraceScope)
    budget: Budget | None = field(default_factory=Budget)
    told: Progressed = lambda done, of: None
    started: int = NEVER  # ns since time 0
    stopped: int = NEVER
    depth: int = 0
    interrupts: bool = False  # whether to record interrupts on the processors of the processes, too
    unfollowed: list[Unfollowed] = field(default_factory=list)
    unended: list[Unended] = field(default_factory=list)
    _followers: list[ClientFollower] = field(default_factory=list)
    _libraries: list[Libraries] = field(default_factory=list)
    _throttles: dict[int, Throttle] = field(default_factory=dict)  # by id of a follower; empty if there is no budget
    _watches: list[Watch] = field(default_factory=list)
    _in_kernel: KernelSession | None = None
    _relay: int = 0  # pid of gilk's relay on the other machine; its calls are left out

    def _insert(self) -> None:
        self._watches = [Watch(self.start, START), Watch(self.stop, STOP)]
        present = []
        self._check_events()
        for process in self.processes:
            follower = self._take_in_follower(process)
            images = process.loaded()
            self._prepare(follower, images)
            present.append(tuple(loaded for loaded in images if loaded not in follower.gone))
            self._zero = self._zero or follower.began
        self._insert_kernel()
        self._check_scope(any(self.scope.awaits(images) for images in present))
        self._kept.schema = schema_of(row.kind for session in self.sessions for row in session.rows)
        self._set_gates(present)
        self._check_scope(any(libraries.watched for libraries in self._libraries))
        for follower in self._followers:
            if not (follower.process.stands and isinstance(self.start, Now)):
                self._expect(follower)
        if isinstance(self.start, Now) and any(process.stands for process in self.processes):
            self._follow()

    def _withdraw(self) -> None:
        for watch in self._watches:
            watch.close()
        super()._withdraw()
        self._followers, self._libraries, self._throttles, self._watches = [], [], {}, []
        self.notes, self.started = [], NEVER

    def _take_in_follower(self, process: Process) -> ClientFollower:
        """A new session for a process, with nothing ready yet. Raises TargetError."""
        follower = ClientFollower(process, ring=_RING)
        if self.sessions:
            follower.align(self._zero, self.clock)
        self.sessions.append(follower)
        self._followers.append(follower)
        if self.budget is not None:
            self._throttles[id(follower)] = Throttle(follower, self.budget)
        return follower

    @property
    def _is_empty(self) -> bool:
        """Whether no function of the processes is in the scope."""
        return bool(self.processes) and not any(follower.functions for follower in self._followers)

    def _check_events(self) -> None:
        """Check that the processes have the functions that events name, before anything is analysed, which may take a
        minute. Raises UsageError `no-such-image`, `no-such-function`."""
        for process in self.processes:
            for event in (self.start, self.stop):
                if isinstance(event, Reach):
                    place_of(process, event)

    def _check_scope(self, may_come: bool) -> None:
        """Check that there is something to follow. ``may_come``: whether libraries with functions may be opened later.
        Raises UsageError `nothing-to-follow`."""
        if self._is_empty and not may_come:
            names, hints = dict[str, None](), dict[str, None]()
            for process in self.processes:
                with unless_ended():  # one that is followed may have ended
                    images = process.loaded()
                    names |= dict.fromkeys(loaded.name for loaded in images)
                    hints |= dict.fromkeys(self._inlined(process))
                    hints |= dict.fromkeys(_without_functions(process, images))
            there = [f"there are: {', '.join(names)}"] if names else []
            hint = "; ".join([*hints, *there, "gilk scan --list shows the functions of one"])
            scope = f" {self.scope}" if str(self.scope) else ""
            raise UsageError("nothing-to-follow", f"no function is in the scope{scope}", hint)

    def _inlined(self, process: Process) -> Iterator[str]:
        """Hints about functions in the scope that have no code of their own, as they are inlined."""
        images = process.loaded()
        for each in self.scope.included:
            found = inlined.hint(process, [loaded for loaded in images if loaded.is_meant(each.image)], each.function)
            if found:
                yield f"{each}: {found}"

    def _expect(self, follower: ClientFollower) -> None:
        """Prepare for the starting event. A program that stands still is not rehearsed."""
        follower.copy_code()
        throttle = self._throttles.get(id(follower))
        if throttle is not None and not follower.process.stands:
            throttle.rehearse()
        follower.expect(self._chosen(follower), throttle.busy if throttle is not None else ())

    def _prepare(self, follower: BaseFollower, images: Sequence[Loaded]) -> None:
        """Make images ready; if the trace has begun, follow them."""
        chosen = [loaded for loaded in images if self.scope.takes_image(loaded)]
        fresh, trouble = follower.prepare(chosen, self.scope, self.told)
        if isinstance(follower.code, Process) and follower.code.has_executed():
            raise program_gone(follower.code.pid)  # which is no trouble of an image
        self.notes += trouble
        if self.started != NEVER and self.stopped == NEVER:
            follower.follow(fresh)

    def _library(self, follower: BaseFollower, opened: Sequence[Loaded]) -> None:
        """Make libraries ready that were opened during the trace."""
        for loaded in opened:
            try:
                self._prepare(follower, [loaded])
            except GilkError as error:
                self.notes.append(f"{loaded.name} is not followed: {error}")

    def _insert_kernel(self) -> None:
        """Put in the kernel's probes, which record nothing until the starting event turns them on."""
        if self.kernel is None:
            return
        wanted = [one for one in expand(self.kernel, self.requests) if one.kind != RecordKind.COUNT]
        session = KernelSession(self.kernel, points=max(len(wanted), 1), ring=_KERNEL_RING, interrupts=self.interrupts)
        session.record(False)
        if self.processes:
            session.filter([process.pid for process in self.processes])
        probes = self.put(session, wanted)
        session.remove(without_entry(wanted, probes))
        self.unfollowed += unfollowed(probes)
        self.unended += unended(wanted, probes)
        self._in_kernel = session
        if self.elsewhere is not None:
            self._relay = self.elsewhere.relay()

    def _set_gates(self, present: list[tuple[Loaded, ...]]) -> None:
        """Put in gates for the events, and for libraries. ``present``: for each process, the images that are ready."""
        for follower, images in zip(self._followers, present, strict=True):
            for event, gate in ((self.start, START), (self.stop, STOP)):
                if isinstance(event, Reach):
                    self._put_gate(follower, event, gate)
            self._watch_for_libraries(follower, images)
        if isinstance(self.start, Reach):
            for follower in self._followers:
                follower.gates.arm(START, self.start.hits, _HOLD)

    def _watch_for_libraries(self, follower: ClientFollower, images: Sequence[Loaded]) -> Libraries:
        """Watch for libraries that the process opens. ``images``: those that are ready."""
        libraries = Libraries(follower, _LIBRARIES, partial(self._library, follower), images)
        self._libraries.append(libraries)
        return libraries

    def _put_gate(self, follower: ClientFollower, event: Reach, gate: int) -> None:
        """Put a gate at the function of an event: in the main program, or else in the first library that has it."""
        loaded, span = place_of(follower.process, event)
        follower.put_gate(loaded, span, event.where, gate)

    def _chosen(self, follower: BaseFollower) -> Iterable[int]:
        """The numbers of the functions to begin with."""
        throttle = self._throttles.get(id(follower))
        return range(follower.functions) if throttle is None else throttle.chosen()

    @abstractmethod
    def _follow(self) -> None:
        """Follow what is ready, because the starting event has come."""


def _without_functions(process: Process, images: Sequence[Loaded]) -> Iterator[str]:
    """Hints about the images in which no function is found at all."""
    for loaded in images:
        with suppress(ImageError):
            if not process.image(loaded.path).spans:
                yield without_functions(loaded.name)
