# SPDX-License-Identifier: LGPL-2.1-or-later
"""Takes records and counts out of the kernel's rings, by way of the driver's client.

A record names its task: ``who`` holds the pid in its low 22 bits and bits of the stack pointer above
(native/abi/ilk_abi.h). So the records of one CPU are divided here into chunks of one thread each, like those of
trace/drain.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from gilk.errors import TargetError
from gilk.targets.kernel.driver import Driver
from gilk.trace.drain import Chunk, Identity
from gilk.trace.interrupts import Interrupts
from gilk.trace.layout import RECORDS

_ROUNDS = 16  # the most rounds of one poll: a kernel that fills its rings faster than they are read must not hold us
_PID = (1 << 22) - 1


class KernelDrain:
    """Reads the rings. ``process(tid)`` is the process that a thread belongs to, None if it has gone; ``ring`` is the
    size of a ring in bytes, one for each CPU and class.

    ``held``: records stay in the rings, which keep the newest, until the end or until this becomes False.
    """

    def __init__(
        self, driver: Driver, process: Callable[[int], int | None], ring: int, held: bool = False,
        interrupts: Interrupts | None = None,
    ) -> None:  # fmt: skip
        self._driver = driver
        self._process = process
        self._ring = ring
        self._interrupts = Interrupts() if interrupts is None else interrupts
        self._lost: dict[tuple[int, int], int] = {}
        self._seen: dict[int, Identity] = {}
        self._pids: dict[int, int | None] = {}  # the processes of threads that were running
        self._counts: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._missed = 0
        self.counters: Sequence[int] = ()  # the number of each probe's counter, -1 if it has none
        self.errors: list[TargetError] = []
        self.closed = False
        self.held = held

    def keep(self) -> None:
        """Read the driver's numbers for the last time; from now on they are reported as they are now."""
        self.counts()
        self.nested()
        self.closed = True

    @property
    def corrupt(self) -> int:
        """The number of times that the data read was impossible."""
        return len(self.errors)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Empty: the driver's numbers are the kernel's own, and no program can write them."""
        return ()

    @property
    def unknown(self) -> None:
        return None

    def poll(self, final: bool = False) -> list[Chunk]:
        """The records committed since the last call."""
        chunks: list[Chunk] = []
        if self.held and not final:
            return chunks
        for _ in range(0 if self.closed else 1 << 20 if final else _ROUNDS):
            found = list(self._read())
            if not found:
                break
            chunks += found
        return chunks

    def _read(self) -> Iterator[Chunk]:
        try:
            for chunk in self._driver.drain():
                known = self._lost.get((chunk.cpu, chunk.kind), 0)
                self._lost[chunk.cpu, chunk.kind] = chunk.lost
                records = np.frombuffer(chunk.records, RECORDS[chunk.kind])
                yield from self._by_thread(chunk.cpu, chunk.kind, records, chunk.lost - known)
        except TargetError as error:
            if error.slug != "stream-corrupt":
                raise
            self.errors.append(error)

    def _by_thread(self, cpu: int, number: int, records: NDArray[np.void], lost: int) -> Iterator[Chunk]:
        """The chunks of the records. ``lost`` is the number of records lost before these; their threads are not known,
        so every thread seen here gets a gap.
        """
        tids = records["sp"] & _PID
        owners: dict[Identity, list[int]] = {}
        # first the wanted threads that were here, then the owners of the other records
        for tid in sorted(np.unique(tids).tolist(), key=lambda tid: not self._interrupts.wants(self._pid(tid), tid)):
            owner = self._interrupts.at(cpu, self._pid(tid), tid)
            if owner is not None:
                owners.setdefault(self._identity(*owner), []).append(tid)
        missing = lost
        for identity, theirs in owners.items():
            places = (0,) if lost > 0 else ()
            yield Chunk(identity, number, records[np.isin(tids, theirs)], places, (missing,) if places else ())
            missing = 0  # lost records are counted once, in the first chunk

    def _pid(self, tid: int) -> int | None:
        if tid not in self._pids:
            self._pids[tid] = self._process(tid)
        return self._pids[tid]

    def _identity(self, pid: int, tid: int) -> Identity:
        return self._seen.setdefault(tid, Identity(pid, tid, 0))

    def counts(self) -> NDArray[np.uint64]:
        """The counter of every probe, summed over all CPUs; 0 for a probe without a counter."""
        if not self.closed and self.counters:
            wanted = np.array(self.counters, np.int64)
            values = np.zeros(int(wanted.max()) + 2, np.uint64)  # the last is for -1
            if len(values) > 1:
                values[:-1] = self._driver.read(0, len(values) - 1)
            self._counts = values[wanted]
        return self._counts

    def identities(self) -> list[Identity]:
        """Every thread that has made a record."""
        return list(self._seen.values())

    def capacity(self, number: int) -> int:
        return self._ring

    def tails(self) -> dict[tuple[int, int], int]:
        """Empty: losses on a processor are reported with its next record, or belong to no known thread."""
        return {}

    def retire(self, live: Set[tuple[int, int]]) -> list[Chunk]:
        """Forget threads that have gone, as their numbers may be given to others."""
        for tid, identity in list(self._seen.items()):
            if (identity.pid, tid) not in live:
                del self._seen[tid]
                self._interrupts.forget(tid)
        self._pids = {tid: pid for tid, pid in self._pids.items() if tid in self._seen}
        return []

    def drops(self) -> int:
        """The number of records that found no room, or were overwritten before they were taken out."""
        return sum(self._lost.values())

    def nested(self) -> int:
        """The number of runs of C instruments left out because one was running already, since the driver was loaded."""
        if not self.closed:
            self._missed = self._driver.status().missed
        return self._missed

    def skipped(self) -> int:
        """Always 0: advice in a kernel has no stack of its own."""
        return 0

    def lost(self) -> int:
        return 0
