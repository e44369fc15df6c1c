# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions that put points all over the kernel, take some out, put others in, and end."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gilk.session.kernel_session import KernelSession
from gilk.session.request import Wanted, expand, parse
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest

POINTS = 1 << 17  # that one session may have
#: Names of functions that every load goes through: half of the functions with points are to be among them.
BUSY = re.compile(
    r"(pipe_|vfs_|do_|__do_|copy_|wake_up|futex_|unmap_|page_|__alloc_|sock_|unix_|hrtimer_|path_|__x64_sys_|schedule)\w*"
)


@dataclass
class Churn:
    """Sessions with functions chosen by the seed; `tactics` and `refusals` count what became of all points."""

    guest: Guest
    kernel: KernelTarget
    seed: int
    inserted: int = 0
    hit: int = 0
    tactics: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._names = sorted({span.name for span in self.kernel.kernel.image.spans})
        self._busy = [name for name in self._names if BUSY.fullmatch(name)]

    def sessions(self, turns: int, functions: int, *instruments: str) -> None:
        """Run so many sessions, one after another, each with points in so many functions."""
        for _ in range(turns):
            with KernelSession(self.kernel, points=POINTS) as session:
                self._session(session, functions, instruments or ("blocks=count",))
            self.guest.link.close_driver()
            assert session.restored is True

    def _session(self, session: KernelSession, functions: int, instruments: Sequence[str]) -> None:
        """Put points in, take half out, and put as many in elsewhere: the plans take account of those that are
        there."""
        first = session.insert_wanted(list(self._wanted(functions, instruments)))
        session.poll()
        session.remove(first[::2])
        session.insert_wanted(list(self._wanted(functions // 2, instruments)))
        session.poll()
        self.tactics += Counter(session.tactics())
        self.refusals += Counter(session.refusals())
        self.inserted += len(session.rows)
        self.hit += sum(1 for hits in session.counts().values() if hits)

    def _wanted(self, functions: int, instruments: Sequence[str]) -> Iterator[Wanted]:
        names = {*self._random.sample(self._names, functions // 2), *self._random.sample(self._busy, functions // 2)}
        for name in sorted(names):
            chosen = self._random.choice(instruments)
            if chosen == "entry=time" and ".cold" in name:  # a part of a function, which is not called
                chosen = "entry=stamp"
            yield from expand(self.kernel, [parse(f"kernel:{name}:{chosen}")])
