# SPDX-License-Identifier: LGPL-2.1-or-later
"""mapped.py CALLS runs in the virtual machine, and reads the driver's rings from its own memory.

Each function is one trial; the results are printed as JSON, by the names of the functions. CALLS is the program of
calls.c.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import random
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.driver_abi import RingChunk, Rings, Verdict
from gilk.targets.kernel.link import LocalLink
from tests.kernel.driver.handmade import Bench, Function, stamp

IID = 0x1234
LIBC = ctypes.CDLL(None, use_errno=True)


@cache
def symbols() -> dict[str, int]:
    with open("/proc/kallsyms") as file:
        return {name: int(address, 16) for address, _, name, *_ in map(str.split, file)}


@contextmanager
def client(order: int, **how: bool | int) -> Iterator[tuple[LocalLink, Driver, Rings]]:
    """A client of the driver for which every getppid makes a record."""
    with LocalLink() as link:
        driver = Driver(link)
        rings, bench = driver.records((order, 0, 0, 0), **how), Bench(driver)
        function = Function.read(lambda at, size: link.read_core([(at, size)])[0], symbols()["__x64_sys_getppid"])
        code = stamp(driver.hello, rings, driver.symbols["ilk_reserve"], bench.next, IID)
        unit = bench.before(function, function.window(5, several=False), code)
        assert [outcome.verdict for outcome in driver.apply([unit])] == [Verdict.OK]
        yield link, driver, rings


def calls(count: int, threads: int = 1) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.argv[1], "110", str(count), str(threads)])


def taken(driver: Driver) -> list[RingChunk]:
    return list(driver.drain())


def records(chunks: list[RingChunk]) -> int:
    """The number of records in the chunks; each must be whole."""
    for chunk in chunks:
        iids = {int.from_bytes(chunk.records[at + 8 : at + 12], "little") for at in range(0, len(chunk.records), 16)}
        assert iids == {IID}
    return sum(len(chunk.records) for chunk in chunks) // 16


def lost(chunks: list[RingChunk]) -> int:
    return sum({chunk.cpu: chunk.lost for chunk in chunks}.values())


def all_of_them() -> object:
    with client(20) as (_, driver, _):
        calls(5000, 4).wait()
        tids: Counter[int] = Counter()
        for chunk in taken(driver):
            whos = [chunk.records[at + 12 : at + 16] for at in range(0, len(chunk.records), 16)]
            tids.update(int.from_bytes(who, "little") & 0x3FFFFF for who in whos)
        return sorted(tids.values())


def no_room() -> object:
    with client(15) as (_, driver, _):
        calls(10000, 4).wait()
        first, room = taken(driver), driver.status().lost[0]
        calls(10).wait()
        return [records(first) + room, lost(first) <= room, records(taken(driver))]


def while_it_is_written(flight: bool) -> object:
    """Records are written, in several turns if need be, until more chunks were read than the rings have."""
    turns, chunks = 0, list[RingChunk]()
    with client(16, flight=flight) as (_, driver, _):
        while turns < 1 or (len(chunks) <= 8 and turns < 100):
            process, turns = calls(60000, 2), turns + 1
            while process.poll() is None:
                chunks += taken(driver)
            chunks += taken(driver)
        return [(records(chunks) + lost(chunks)) / turns, len(chunks) > 8]


def ready(link: LocalLink, seconds: float = 0) -> bool:
    return bool(select.select([link], [], [], seconds)[0])


def waiting() -> object:
    """A single CPU runs, so that it is known which ring is filled; its chunks have room for 1024 records."""
    os.sched_setaffinity(0, {0})
    answers = []
    with client(17, watermark=3) as (link, driver, _):
        for count in (0, 3 * 1024, 1):
            calls(count).wait()
            answers.append(ready(link))
        found = records(taken(driver))
        answers.append(ready(link))
        process = calls(20_000_000)
        answers.append(ready(link, 60) and process.poll() is None)  # woken before it had ended
        process.kill()
        process.wait()
    os.sched_setaffinity(0, {0, 1})
    return [answers, found]


def error(action: Callable[[], object]) -> str:
    try:
        action()
    except OSError as problem:
        return errno.errorcode[problem.errno or 0]
    return "none"


def wrong_maps() -> object:
    read, write, execute = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
    with LocalLink() as bare:
        Driver(bare)
        before = error(lambda: mmap.mmap(bare.fileno(), 4096, mmap.MAP_SHARED, read))
    with client(15) as (link, _, rings):

        def get(offset: int, size: int, may: int, how: int = mmap.MAP_SHARED) -> str:
            return error(lambda: mmap.mmap(link.fileno(), size, how, may, offset=offset).close())

        area, answers = rings.records[0], {"before": before}
        answers["read"] = get(area.offset, area.size, read)
        answers["written"] = get(area.offset, area.size, read | write)
        answers["heads written"] = get(rings.heads.offset, 4096, read | write)
        answers["executed"] = get(area.offset, area.size, read | execute)
        answers["tails executed"] = get(rings.tails.offset, 4096, read | execute)
        answers["private"] = get(area.offset, area.size, read, mmap.MAP_PRIVATE)
        answers["too long"] = get(area.offset, area.size + 4096, read)
        answers["from its middle"] = get(area.offset + 4096, 4096, read)
        answers["nowhere"] = get(1 << 40, 4096, read)
        answers["no ring"] = get(rings.records[1].offset, 4096, read)
        return answers


def protected() -> object:
    """Memory mapped for reading cannot be made writable afterwards, and is not inherited."""
    with client(15) as (link, _, rings):
        mapped = LIBC.mmap
        mapped.restype, mapped.argtypes = ctypes.c_void_p, [ctypes.c_void_p] + [ctypes.c_long] * 5
        at = mapped(None, 4096, mmap.PROT_READ, mmap.MAP_SHARED, link.fileno(), rings.records[0].offset)
        answers = [LIBC.mprotect(ctypes.c_void_p(at), 4096, may) for may in (3, 5)]
        pid = os.fork()
        if not pid:
            with open("/proc/self/maps") as file:
                os._exit(sum("/dev/ilk" in line for line in file))
        inherited = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        LIBC.munmap(ctypes.c_void_p(at), 4096)
        return [answers, inherited]


def wild_tails(flight: bool) -> object:
    """A client that writes wrong tails loses records, and nothing else happens."""
    rng = random.Random(1)
    with client(15, flight=flight) as (link, driver, rings):
        tails = mmap.mmap(link.fileno(), 4096, offset=rings.tails.offset)
        process = calls(100_000, 2)
        while process.poll() is None:
            for at in range(0, 4096, 8):
                tails[at : at + 8] = rng.choice([rng.randbytes(8), bytes(8), b"\xff" * 8, b"\0\xc0" + bytes(6)])
            link.drain(1 << 20)
        tails.close()
        return driver.status().own_units


def closed() -> object:
    """Mappings do not keep the driver open."""
    with client(15):
        pass
    with LocalLink() as link:
        status = Driver(link).status()
        return [status.clients, status.units, status.ring_bytes]


def main() -> None:
    trials: list[tuple[str, Callable[[], object]]] = [
        ("all", all_of_them), ("no room", no_room), ("waiting", waiting), ("wrong maps", wrong_maps),
        ("while written", lambda: while_it_is_written(False)), ("while overwritten", lambda: while_it_is_written(True)),
        ("protected", protected), ("wild tails", lambda: wild_tails(False)), ("wild flight", lambda: wild_tails(True)),
        ("closed", closed),
    ]  # fmt: skip
    print(json.dumps({name: trial() for name, trial in trials}))


if __name__ == "__main__":
    main()
