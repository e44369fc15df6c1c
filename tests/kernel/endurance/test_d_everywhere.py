# SPDX-License-Identifier: LGPL-2.1-or-later
"""A D program at every function of a busy kernel that can have probes: clauses as dear as they come, while NMIs come
in."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gilk.engines.dtrace.consumer import Consumer
from gilk.render.d.printf import formatted
from gilk.targets.kernel.target import KernelTarget
from gilk.trace.d.events import Event, Exited, Snapshot
from tests.kernel.driver.driving import Guest
from tests.kernel.endurance.load import STRESSORS, stressed
from tests.kernel.session.d_programs import ThePages, program

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.stress, pytest.mark.timeout(6 * 3600)]
ROUNDS = int(os.environ.get("GILK_ENDURANCE_ROUNDS", "3"))  # of WORK; without KVM one takes some minutes
LEAST = 70_000  # probes
NMI_EVERY = 0.01  # seconds of this machine
LEVELS = "/proc/sys/kernel/printk"
WORK = "ls -R /sys/kernel > /dev/null 2>&1; find /proc/self -maxdepth 2 > /dev/null 2>&1; cat /proc/meminfo > /dev/null"
NETWORK = ("udp", "icmp-flood", "sockfd")
#: Stacks of kernel and program, texts that are made or copied, speculations, and a variable of the thread.
DEAREST = """
    fbt:::entry { @stacks[stack()] = count(); }
    fbt:::entry { @programs[ustack()] = count(); }
    fbt:::entry { @joined[strjoin(execname, probefunc)] = count(); }
    fbt:::return { @results[probefunc] = quantize(arg1); }
    fbt:::entry { self->s = speculation(); speculate(self->s); printf("%s %d", execname, cpu); }
    fbt:::entry { discard(self->s); self->s = 0; }
    fbt:::entry /uregs[R_RSP]/ { @copied[copyinstr(uregs[R_RSP])] = count(); }
    syscall::getsid:entry { exit(3); }
    END { trunc(@stacks, 9); trunc(@programs, 9); trunc(@joined, 9); trunc(@copied, 9);
          trunc(@results, 9); }"""
END_PROGRAM = [sys.executable, "-c", "import os; os.getsid(0)"]


def started(kernel: KernelTarget, text: str) -> Consumer:
    """A program that runs at nearly every function. It is destructive, so that the driver does not abort it where the
    machine is too busy for gilk."""
    consumer, _ = program(kernel, text, clausetime="400000", aggsize="16m", bufsize="1m", destructive="")
    began = time.monotonic()
    refused = consumer.start()
    print(f"put in after {time.monotonic() - began:.0f} s")
    assert len(consumer.enabled.in_kernel) - len(refused) > LEAST
    return consumer


def events_of(consumer: Consumer, seen: Callable[[Event], object] = lambda event: None) -> Counter[str]:
    """Run the program until its exit(); returns how many events of each kind there were."""
    kinds = Counter[str]()
    for event in consumer.events(lambda: False, ThePages(), formatted):
        kinds[type(event).__name__] += 1
        seen(event)
    return kinds


@contextmanager
def worked(guest: Guest) -> Iterator[None]:
    """In the block, a script does the rounds of work, and then makes the call that ends the program. The number of each
    round is printed when it is over."""
    script = f'for n in $(seq {ROUNDS}); do {WORK}; echo $n; done; exec "$@"'
    process = guest.link.spawn(["sh", "-c", script, "sh", *END_PROGRAM], _print, _print)
    yield
    assert process.wait(600.0) == 0


def _print(output: bytes) -> None:
    print(f"{time.ctime()}: {output!r}", flush=True)


@contextmanager
def interrupted(guest: Guest) -> Iterator[None]:
    """In the block, the first processor gets NMIs of no known reason. The kernel writes of each to its log, but not to
    the console, which would take all of its time."""
    over = threading.Event()

    def interrupt() -> None:
        while not over.wait(NMI_EVERY):
            guest.vm.monitor("nmi")

    levels = guest.link.read_file(LEVELS).decode()
    guest.write(LEVELS, "0 " + levels.split(maxsplit=1)[1])
    before, thread = nmis(guest), threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        guest.write(LEVELS, levels)
    assert nmis(guest) - before > 1000


def nmis(guest: Guest) -> int:
    """The NMIs of the first processor so far."""
    row = re.search(r"NMI:\s+(\d+)", guest.link.read_file("/proc/interrupts").decode())
    assert row
    return int(row[1])


def end(consumer: Consumer) -> None:
    assert consumer.machine is not None
    consumer.machine.close()


def test_the_dearest_clauses_at_every_function_of_a_busy_kernel(guest: Guest, kernel: KernelTarget) -> None:
    tables = dict[str, int]()

    def seen(event: Event) -> None:
        if isinstance(event, Snapshot):
            tables[event.columns[0].aggregation.name] = len(event.rows)
        assert not isinstance(event, Exited) or event.status == 3

    consumer = started(kernel, DEAREST)
    try:
        with stressed(guest, (*STRESSORS, *NETWORK)), interrupted(guest), worked(guest):
            kinds = events_of(consumer, seen)
    finally:
        end(consumer)
    print(kinds, tables)
    assert kinds["Exited"] == 1 and tables == dict.fromkeys(("stacks", "programs", "joined", "copied", "results"), 9)
    assert consumer.restored is True
