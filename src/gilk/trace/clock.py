# SPDX-License-Identifier: LGPL-2.1-or-later
"""Converts the time stamp counter to nanoseconds of CLOCK_MONOTONIC.

Records carry raw TSC values. Two readings of both clocks, some time apart, fix the line between them; this needs no
privilege, but an instruction that Python does not have, so a few bytes of machine code run in memory of this process.
(The kernel's own factors, in a perf_event page, cannot be read if perf_event_paranoid is 3, Debian's default.)
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gilk.errors import StoreError
from gilk.values import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Sample = tuple[int, int]  # (tsc, CLOCK_MONOTONIC in ns)

_TRIES = 32
_SECOND = 1_000_000_000  # ns
_DENIED = 1e-4  # if the given rate differs from the measured one by less than this part, the given one is the better
#: void read(struct { struct timespec before, after; uint64_t tsc; } *out, typeof(clock_gettime) *gettime)
_CODE = """
    f3 0f 1e fa        endbr64
    53                 push   rbx
    41 54              push   r12
    48 83 ec 08        sub    rsp, 8             ; a multiple of 16 where calls are made
    48 89 fb           mov    rbx, rdi
    49 89 f4           mov    r12, rsi
    bf 01 00 00 00     mov    edi, 1             ; CLOCK_MONOTONIC
    48 89 de           mov    rsi, rbx
    41 ff d4           call   r12
    0f ae e8           lfence
    0f 31              rdtsc
    0f ae e8           lfence
    48 c1 e2 20        shl    rdx, 32
    48 09 d0           or     rax, rdx
    48 89 43 20        mov    [rbx+32], rax
    bf 01 00 00 00     mov    edi, 1
    48 8d 73 10        lea    rsi, [rbx+16]
    41 ff d4           call   r12
    48 83 c4 08        add    rsp, 8
    41 5c              pop    r12
    5b                 pop    rbx
    c3                 ret
"""


@dataclass(frozen=True, slots=True)
class Clock:
    """A line: the counter was `tsc0` at `ns0` of CLOCK_MONOTONIC, and advances by `ticks_per_ns`."""

    tsc0: int
    ns0: int
    ticks_per_ns: float

    @classmethod
    def fit(cls, samples: Sequence[Sample]) -> Clock:
        """The line closest to `samples`. Raises StoreError `clock-unknown` unless two of them differ in both clocks."""
        if len({tsc for tsc, _ in samples}) < 2 or len({ns for _, ns in samples}) < 2:
            raise StoreError("clock-unknown", f"{len(samples)} readings of the clock do not lie on a line")
        tsc0, ns0 = min(samples)
        tsc_mean = sum(sample[0] - tsc0 for sample in samples) / len(samples)
        ns_mean = sum(sample[1] - ns0 for sample in samples) / len(samples)
        away = [(tsc - tsc0 - tsc_mean, ns - ns0 - ns_mean) for tsc, ns in samples]
        slope = sum(tsc * ns for tsc, ns in away) / sum(ns * ns for _, ns in away)
        if not slope > 0:
            raise StoreError("clock-unknown", "the time stamp counter does not advance with the clock")
        return cls(tsc0, ns0 + round(ns_mean - tsc_mean / slope), slope)

    @classmethod
    def agreed(cls, samples: Sequence[Sample], ticks_per_ns: float) -> Clock:
        """The line that most of `samples` agree on. Its rate is `ticks_per_ns`, the rate that was told, unless the
        samples contradict that.

        A sample that was interrupted halfway is off, perhaps by milliseconds, so medians are used: of the rates between
        any two, and of where the line lies then (P. K. Sen, Estimates of the regression coefficient, 1968).
        """
        from statistics import median  # imported here: it is slow to import, and not every use of a clock needs it

        middle = len(samples) // 2
        rates = [(b[0] - a[0]) / (b[1] - a[1]) for a in samples[:middle] for b in samples[middle:] if b[1] > a[1]]
        found = median(rates) if rates else ticks_per_ns
        rate = ticks_per_ns if abs(found / ticks_per_ns - 1) < _DENIED else found
        tsc0, ns0 = samples[0]
        return cls(tsc0, ns0 + round(median(ns - ns0 - (tsc - tsc0) / rate for tsc, ns in samples)), rate)

    def to_tsc(self, ns: int) -> int:
        """The reading of the counter at a time in ns of CLOCK_MONOTONIC."""
        return self.tsc0 + round((ns - self.ns0) * self.ticks_per_ns)

    def to_ns(self, tsc: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The times in ns of CLOCK_MONOTONIC. Exact to 1 ns over 104 days; a nonsensical `tsc` gives a nonsensical
        time.
        """
        import numpy as np  # imported here: programs without arrays of times need not wait for it

        ticks = (tsc - np.uint64(self.tsc0 & 0xFFFFFFFFFFFFFFFF)).view(np.int64)
        limit = float(1 << 62)
        since = np.clip(ticks / self.ticks_per_ns, -limit, limit)
        return np.rint(since).astype(np.int64) + self.ns0


def sample() -> Sample:
    """A reading of both clocks at one moment: the narrowest of several readings of the counter between two of the other
    clock.
    """
    read, out = _reader(), (ctypes.c_ulong * 5)()
    best: tuple[int, Sample] | None = None
    for _ in range(_TRIES):
        read(out)
        before, after = out[0] * _SECOND + out[1], out[2] * _SECOND + out[3]
        if best is None or after - before < best[0]:
            best = after - before, (out[4], (before + after) // 2)
    assert best is not None
    return best[1]


_ahead: list[Sample] = []


def begin() -> None:
    """Take the first of the two samples for a clock that calibrate() will make soon, so that it need not wait."""
    _ahead[:] = [sample()]


def calibrate(seconds: float = 0.02) -> Clock:
    """A clock from two samples that are at least `seconds` apart; over 20 ms it is within some 5 parts in a million."""
    first = _ahead.pop() if _ahead else sample()
    time.sleep(max(seconds - (time.monotonic_ns() - first[1]) / 1e9, 0))
    return Clock.fit([first, sample()])


def realtime_offset() -> int:
    """The number of ns to add to CLOCK_MONOTONIC to get CLOCK_REALTIME, at present: that of the quickest of some
    readings, since this process may lose its processor between the clocks."""
    readings = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_TRIES)]
    before, real, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return real - (before + after) // 2


@functools.cache
def _reader() -> Callable[[Any], None]:
    """A function that runs the code, in memory of this process that is no file's. Raises StoreError clock-unknown."""
    code = bytes.fromhex("".join(line.strip().partition("  ")[0] for line in _CODE.splitlines()))
    memory = mmap.mmap(-1, len(code))
    memory.write(code)
    start = ctypes.c_char.from_buffer(memory)  # keeps the memory mapped as long as it exists
    address = ctypes.addressof(start)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), mmap.PROT_READ | mmap.PROT_EXEC):
        reason = os.strerror(ctypes.get_errno())
        raise StoreError("clock-unknown", f"cannot read the time stamp counter: memory may not be executed: {reason}")
    read = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    gettime = ctypes.cast(libc.clock_gettime, ctypes.c_void_p)

    def both(out: Any, _held: object = start) -> None:
        read(out, gettime)

    return both
