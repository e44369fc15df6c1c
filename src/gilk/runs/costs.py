# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of instruments on this machine: measured on a program of gilk's own, and kept in the cache.

The program calls a function of four instructions again and again (native/cost/busy.c). The difference that an
instrument makes to a call is the cost of a hit there: the least that it can be, since all code and all data are in the
processor's caches.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

from gilk.arch.processor import model
from gilk.cache.blobs import load_blob, store_blob
from gilk.cache.key import files_of, made_of, package_files
from gilk.errors import TargetError
from gilk.session.broker.client_session import ClientSession
from gilk.session.request import Builtin
from gilk.targets import process
from gilk.targets.process import Process
from gilk.toolchain.compilers import NATIVE
from gilk.toolchain.cost_program import cost_program
from gilk.trace.spent import HitCosts

Look = Callable[[], float]  # returns the ticks of a call
BATCHES, CALLS = 100, 500  # of native/cost/busy.c
_KIND: Final = "costs"  # in the cache
_LOOKS: Final = 3  # per instrument; the first one also touches its memory for the first time
_RING: Final = 16 << 20  # bytes: the records of a look fit in twice over
_ENTRY: Final = "busy:entry"


def known_costs() -> HitCosts | None:
    """The costs that were measured on a machine like this one; None if they were not measured yet."""
    kept = load_blob(_KIND, _key())
    with suppress(ValueError, AttributeError, TypeError):
        found = {str(name): float(ns) for name, ns in json.loads(kept or b"").items()}
        if found.keys() == {str(one) for one in Builtin}:
            return HitCosts(found)
    return None


def measured_costs() -> HitCosts:
    """The costs, measured now, and kept for `known_costs`; that takes a second or two. Raises GilkError."""
    try:
        with cost_program() as path, subprocess.Popen([path], stdin=-1, stdout=-1, start_new_session=True) as busy:
            try:
                found = HitCosts(_measure(busy))
            finally:
                busy.kill()
    except OSError as error:
        raise TargetError("no-costs", f"the cost of instruments cannot be measured: {error.strerror}") from None
    store_blob(_KIND, _key(), json.dumps(dict(found.ns)).encode())
    return found


@cache
def _key() -> bytes:
    """A digest of all that the costs depend on."""
    files = [*files_of(NATIVE), *package_files("splice", "session", "runs/costs.py")]
    return made_of(("costs", model()), files)


def _measure(busy: subprocess.Popen[bytes]) -> dict[str, float]:
    """The costs in ns, by instrument. Raises GilkError."""

    def look() -> float:
        return _batch(busy)

    bare = min(look() for _ in range(_LOOKS))
    with process.attach(busy.pid) as held:
        return {str(one): round(_cost(held, one, look, bare), 3) for one in Builtin}


def _cost(held: Process, instrument: Builtin, look: Look, bare: float) -> float:
    """The time that one instrument adds to a call, in ns. Raises GilkError."""
    with ClientSession(held, points=8, threads=8, ring=_RING) as session:
        session.insert(_ENTRY, instrument)
        found = []
        for _ in range(_LOOKS):
            found.append(look())
            session.poll()
        if session.drain.drops():
            raise TargetError(
                "no-costs", "records were dropped while the cost of instruments was measured", "try again"
            )
        return max(0.0, min(found) - bare) / session.clock.ticks_per_ns


def _batch(busy: subprocess.Popen[bytes]) -> float:
    """The ticks of a call: the lower quartile of many batches, which others on the machine have not disturbed. Raises
    TargetError `no-costs`."""
    assert busy.stdin is not None and busy.stdout is not None
    with suppress(BrokenPipeError):
        busy.stdin.write(b"\n")
        busy.stdin.flush()
    took = busy.stdout.read(8 * BATCHES)
    if len(took) < 8 * BATCHES:
        raise TargetError("no-costs", "the program that measures the cost of instruments has ended", "try again")
    return float(sorted(struct.unpack(f"={BATCHES}Q", took))[BATCHES // 4]) / CALLS
