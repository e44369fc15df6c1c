# SPDX-License-Identifier: LGPL-2.1-or-later
"""One D program about the kernel and processes counts what the programs report themselves, and what ftrace counts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.engines.dtrace.machine import OtherMachine
from gilk.errors import TargetError, UsageError
from gilk.lab import Machine, boot
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.runs.elsewhere import Elsewhere
from gilk.targets.kernel.channel import RemoteProcess
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.conftest import STRICT
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_d_clients import Second
from tests.kernel.session.test_d_programs import shell
from tests.programs.build import compile_to

pytestmark = pytest.mark.xdist_group("lab")
TIMES = 50
PATIENCE = 120.0  # seconds
FRAMES = ("-O0", "-fno-omit-frame-pointer")
INT3 = b"\xcc"
BOTH = """
    pid$target:a.out:inner:entry { self->in = 1; @["entry"] = count(); @s["arg0"] = sum(arg0); }
    pid$target:a.out:inner:return { self->in = 0; @["return"] = count(); @s["arg1"] = sum(arg1); }
    syscall::getpgid:entry /pid == $target/ { @["calls"] = count(); }
    syscall::getpgid:entry /self->in/ { @["in"] = count(); @s["of"] = sum(arg0 - 0x10000); }
    fbt::__x64_sys_getpgid:entry /self->in/ { @["fbt"] = count(); }
    END { printa("%s %@d\\n", @); printa("%s %@d\\n", @s); }"""
EVENTS = """\
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
cd /sys/kernel/tracing; echo > trace
echo 'p:gilktest/begins {path}:{offset:#x} given=%di:s64' > uprobe_events
echo 'r:gilktest/ends {path}:{offset:#x} result=$retval:s64' >> uprobe_events
echo 1 > events/gilktest/enable"""
READS = """\
import sys
with open(sys.argv[1], "rb", 0) as memory:
    memory.seek(int(sys.argv[2]))
    print(memory.read(int(sys.argv[3])).hex())"""
TOLD = """\
cd /sys/kernel/tracing; cat trace
echo 0 > events/gilktest/enable; echo > uprobe_events; echo > trace"""


@pytest.fixture(scope="module")
def users(exchange: Path) -> Path:
    return compile_to(exchange / "users", [Path(__file__).with_name("users.c")], FRAMES)


def offset_of(path: Path, name: str) -> int:
    """The offset in the file of a function, or of data, by nm and readelf."""
    symbols = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    address = int(re.findall(rf"^(\w+) [a-zA-Z] {name}$", symbols, re.MULTILINE)[0], 16)
    rows = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    for offset, start, size in re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", rows):
        if 0 <= address - int(start, 16) < int(size, 16):
            return int(offset, 16) + address - int(start, 16)
    raise AssertionError(f"{name} is in no segment")


def counted(lines: list[str]) -> dict[str, int]:
    return {name: int(count) for name, count in map(str.split, lines)}


def expected(times: int) -> dict[str, int]:
    given = sum(2 * n + 1 for n in range(times))
    inner = 2 * times
    return {
        "entry": inner, "return": inner, "arg0": given, "arg1": 3 * given + inner,
        "calls": 3 * times, "in": inner, "of": given, "fbt": inner,
    }  # fmt: skip


class Turning:
    """A process in the machine that makes turns when it is told to."""

    def __init__(self, guest: Guest, path: Path, *words: str) -> None:
        self._guest, self._path = guest, path
        self.said = bytearray()
        words = ("sh", "-c", 'echo $$; exec "$@"', "sh", str(path), *words)
        self.process: RemoteProcess = guest.link.spawn(words, self.said.extend, self.said.extend)
        assert guest.link.channel.until(lambda: b"\n" in self.said, PATIENCE)
        self.pid = int(self.said.split()[0])
        self.turns = 0
        self.turn(1)  # by now it executes the program

    def turn(self, count: int) -> None:
        self.turns += count
        self.process.write(b"." * count)
        assert self._guest.link.channel.until(lambda: b"turns %d\n" % self.turns in self.said, PATIENCE), self.said

    def end(self) -> None:
        self.process.end_input()
        assert self.process.wait(PATIENCE) == 0

    def byte(self, name: str) -> bytes:
        """The first byte of the function in the process's memory."""
        return self._memory(name, "x", 1)

    def number(self, name: str) -> int:
        """The value of the process's 16-bit variable of that name."""
        return int.from_bytes(self._memory(name, "w", 2), "little")

    def _memory(self, name: str, kind: str, size: int) -> bytes:
        place = offset_of(self._path, name)
        for line in self._guest.link.read_file(f"/proc/{self.pid}/maps").decode().splitlines():
            span, permissions, offset, *_ = line.split()
            start, end = (int(each, 16) for each in span.split("-"))
            at = start + place - int(offset, 16)
            if line.endswith(f"/{self._path.name}") and kind in permissions and start <= at < end:
                words = [sys.executable, "-c", READS, f"/proc/{self.pid}/mem", str(at), str(size)]
                return bytes.fromhex(self._guest.run(*words))
        raise AssertionError(f"{self._path} is not mapped")


@contextmanager
def turning(guest: Guest, path: Path, count: int, *words: str) -> Iterator[list[Turning]]:
    made: list[Turning] = []
    try:
        made += [Turning(guest, path, *words) for _ in range(count)]
        yield made
    finally:
        for each in made:
            if each.process.status is None:
                each.process.signal(signal.SIGKILL)
                each.process.wait(PATIENCE)


def test_clauses_in_kernel_and_process_share_variables(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """A flag that a function of the process sets is seen at the system calls of its thread only; a child does not
    have it."""
    for command in ([str(users), str(TIMES)], [str(users), str(TIMES), "fork"]):
        done = ran(kernel, BOTH, command)
        assert counted(done.lines) == expected(TIMES)
        assert (done.errors, done.status, done.restored) == ("", 0, True)
    assert not guest.complaints()


def test_counts_and_values_are_those_of_ftrace(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """Both probe the same instruction, at the same time."""
    shell(guest, EVENTS.format(path=users, offset=offset_of(users, "inner")))
    try:
        done = ran(kernel, BOTH, [str(users), str(TIMES)])
    finally:
        told = shell(guest, TOLD)
    given = [int(each) for each in re.findall(r"begins: .* given=(-?\d+)", told)]
    results = [int(each) for each in re.findall(r"ends: .* result=(-?\d+)", told)]
    found = counted(done.lines)
    assert (found["entry"], found["arg0"]) == (len(given), sum(given)) and len(given) == 2 * TIMES
    assert (found["return"], found["arg1"]) == (len(results), sum(results))
    assert not guest.complaints()


@pytest.mark.stress
def test_a_library_is_traced_with_the_calls_that_it_makes(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """Each turn has one mmap() inside malloc(), and one outside."""
    text = """
        pid$target:libc:malloc:entry { self->in = 1; } pid$target:libc:malloc:return { self->in = 0; }
        syscall::mmap:entry /self->in/ { @[ustack(1)] = count(); }
        syscall::mmap:entry /pid == $target && arg1 == 262144/ { @outside = count(); }
        END { printa("%k %@d\\n", @); printa("outside %@d\\n", @outside); }"""
    done = ran(kernel, text, [str(users), str(TIMES)], clausetime="200000")
    assert [line.split() for line in done.lines][1:] == [[str(TIMES)], ["outside", str(TIMES)]]
    assert re.match(r"libc\.so\.6`", done.lines[0].strip()) and not done.errors and not guest.complaints()


def test_uprobe_clauses_have_arguments_registers_and_stacks(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The test covers all ten arguments, the registers and the caller, at the function's entry and at its return."""
    text = """
        pid$target:a.out:many:entry { @s["given"] = sum(arg0 + 2 * arg1 + 3 * arg2 + 4 * arg3 + 5 * arg4 + 6 * arg5 +
            7 * arg6 + 8 * arg7 + 9 * arg8 + 10 * arg9); }
        pid$target:a.out:many:return { @s["returned"] = sum(arg1); @s["uregs"] = sum(uregs[R_RAX]); }
        pid$target:a.out:inner:entry { @k[ustack(3)] = count(); @c[usym(ucaller)] = count(); }
        pid$target:a.out:inner:return { @r[usym(ucaller)] = count(); }
        pid$target:a.out:inner:0 { @["0"] = count(); }
        pid$target:a.out:inner:entry /uregs[R_RIP] != 0 && stackdepth == 0/ { @[execname] = count(); }
        fbt::do_msgsnd:entry { }
        END { printa("%s %@d\\n", @); printa("%s %@d\\n", @s); printa("%A %@d\\n", @c); printa("%A %@d\\n", @r);
            printa("%k %@d\\n", @k); }"""
    done = ran(kernel, text, [str(users), str(TIMES)], clausetime="200000")
    total = sum(n + 2 + 6 + 12 + 20 + 30 + 42 + 56 + 72 + 10 * (n + 9) for n in range(TIMES))
    assert done.lines[:5] == [f"0 {2 * TIMES}", f"users {2 * TIMES}", *(
        f"{name} {total}" for name in ("given", "returned", "uregs"))]  # fmt: skip
    assert [line.split() for line in done.lines[5:7]] == [["users`outer", str(2 * TIMES)]] * 2
    named = [re.sub(r"\+0x\w+", "", line.strip()) for line in done.lines[7:]]
    assert named[:3] == ["users`inner", "users`outer", "users`turn"] and not guest.complaints()


def test_arguments_have_the_types_of_the_program(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The types come from the debug information: structs and the targets of their pointers, bit-fields, short
    integers."""
    text = """
        pid$target:a.out:placed:entry { @n[copyinstr((uintptr_t)args[0]->next->name)] = count();
            @s["more"] = sum(args[0]->more); @s["by"] = sum(args[1]); @s["next"] = sum(args[0]->next->u.numbers[2]); }
        pid$target:a.out:placed:entry /((struct order *)arg0)->count == 3/ { @n["count"] = count(); }
        pid$target:a.out:placed:return { @s["result"] = sum(args[1]); }
        fbt::do_msgsnd:entry { }
        END { printa("%s %@d\\n", @n); printa("%s %@d\\n", @s); }"""
    done = ran(kernel, text, [str(users), str(TIMES)])
    total = sum(range(TIMES))
    assert counted(done.lines) == {
        "other": TIMES, "count": TIMES, "more": sum(n & 31 for n in range(TIMES)), "by": -total, "next": -total,
        "result": -4 * total,
    }  # fmt: skip
    assert not done.errors and not guest.complaints()


def test_absent_pages_that_a_clause_reads_are_made_present(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The string is on two pages that the process has not touched; it is read, and no action is repeated for that."""
    text = """
        pid$target:a.out:shown:entry /copyinstr(arg0) == strjoin("text ", lltostr(seen))/ { @n["equal"] = count(); }
        pid$target:a.out:shown:entry { printf("%s\\n", copyinstr(arg0)); seen++; }
        pid$target:a.out:shown:entry { @n["after"] = count(); }
        fbt::do_msgsnd:entry { } END { printa("%s %@d\\n", @n); }"""
    done = ran(kernel, "int seen;" + text, [str(users), str(TIMES), "untouched"])
    assert done.lines[:TIMES] == [f"text {n}" for n in range(TIMES)] and not done.errors
    assert counted(done.lines[TIMES:]) == {"equal": TIMES, "after": TIMES} and not guest.complaints()


def test_pages_are_not_made_present_after_a_clause_had_effects(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """Nor are pages that the process may not read: each access is a fault, and the rest of the clause is done once."""
    text = """
        pid$target:a.out:shown:entry { @n["before"] = count(); self->text = copyinstr(arg0); @n["read"] = count(); }
        pid$target:a.out:shown:entry { self->text = copyinstr(arg1); @n["never"] = count(); }
        fbt::do_msgsnd:entry { } ERROR { errors++; } END { printa("%s %@d\\n", @n); printf("errors %d\\n", errors); }"""
    done = ran(kernel, "int errors;" + text, [str(users), str(TIMES), "untouched"])
    assert counted(done.lines) == {"before": TIMES, "errors": 2 * TIMES} and not guest.complaints()


@pytest.mark.stress
def test_other_processes_of_the_program_are_left_alone(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """Two of three processes of the program are meant, and the D program ends with them; the third's memory is never
    touched."""
    with turning(guest, users, 3) as (first, second, other):
        before = other.byte("inner")
        seen: list[bytes] = []

        def work() -> None:
            seen.extend(each.byte("inner") for each in (first, second, other))
            for each, count in ((first, 3), (second, 5), (other, 7)):
                each.turn(count)
            first.end()
            second.end()

        text = """
            pid$target:a.out:inner:entry { @[pid] = count(); } fbt::do_msgsnd:entry { }
            END { printa("%d %@d\\n", @); }"""
        done = ran(kernel, text, pids=(first.pid, second.pid), work=work)
        assert before != INT3 and seen == [INT3, INT3, before]
        assert sorted(map(str.split, done.lines)) == sorted([[str(first.pid), "6"], [str(second.pid), "10"]])
        assert done.ended and not done.errors and other.byte("inner") == before
        other.turn(1)
    assert not guest.complaints()


def test_a_process_whose_main_thread_has_ended_is_traced(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """Its own files below /proc are empty then; those of its other threads are not."""
    with turning(guest, users, 1, "0", "beside") as (process,):
        assert not guest.link.read_file(f"/proc/{process.pid}/maps")

        def work() -> None:
            process.turn(4)
            process.end()

        text = """
            pid$target:a.out:inner:entry { @[pid] = count(); } fbt::do_msgsnd:entry { }
            END { printa("%d %@d\\n", @); }"""
        done = ran(kernel, text, pids=(process.pid,), work=work)
        assert done.lines == [f"{process.pid} 8"] and done.ended and not done.errors
    assert not guest.complaints()


@pytest.mark.stress
def test_without_the_filter_other_processes_are_hit(users: Path, exchange: Path, tmp_path: Path) -> None:
    """Negative control of the test above: without the filter the driver hits all processes."""
    text = """
        pid$target:a.out:inner:entry { @[pid] = count(); } fbt::do_msgsnd:entry { }
        END { printa("%d %@d\\n", @); }"""
    with boot(Machine(cpus=2, arguments=STRICT, rw=(exchange,))) as vm:
        guest = Guest(vm, tmp_path)
        guest.load("omit=4")
        with turning(guest, users, 2) as (meant, other):

            def work() -> None:
                other.turn(3)
                meant.turn(2)
                meant.end()

            done = ran(KernelTarget(guest.link), text, pids=(meant.pid,), work=work)
            assert sorted(map(str.split, done.lines)) == sorted([[str(meant.pid), "4"], [str(other.pid), "6"]])
        assert not guest.complaints()


@pytest.fixture(scope="module")
def opening(exchange: Path) -> tuple[Path, Path]:
    """A program, and the library that it opens after a while at the path that it is given."""
    here = Path(__file__).parent
    library = compile_to(exchange / "libopenedlate.so", [here / "later.c"], (*FRAMES, "-shared", "-fPIC"))
    return compile_to(exchange / "opens", [here / "deep.c"], FRAMES), library


OPENED = """
    pid$target:libopenedlate:later:entry { self->in = 1; @n["entry"] = count(); @s["numbers"] = sum(arg1); }
    syscall::getpgid:entry /self->in/ { @n["calls"] = count(); }
    pid$target:libopenedlate.so:later:return { self->in = 0; @n["return"] = count(); }
    END { printa("%s %@d\\n", @n); printa("%s %@d\\n", @s); }"""
HITS = {"entry": TIMES, "return": TIMES, "calls": TIMES, "numbers": sum(range(TIMES))}


def test_a_library_opened_later_gets_its_probes(kernel: KernelTarget, guest: Guest, opening: tuple[Path, Path]) -> None:
    """The probes are there from the library's first call on. If the file was not announced, they are refused."""
    command = [str(opening[0]), str(TIMES), str(opening[1])]
    done = ran(kernel, OPENED, command, opened=str(opening[1]))
    assert counted(done.lines) == HITS and not done.errors
    with pytest.raises(NoSuchProbe, match="maps no libopenedlate"):
        program(kernel, OPENED, command)
    with pytest.raises(TargetError, match="there is no file /no/such/library") as caught:
        program(kernel, OPENED, command, opened="/no/such/library")
    assert caught.value.slug == "no-such-file"
    assert not guest.complaints()


@pytest.mark.stress
def test_a_program_executed_later_gets_its_probes(
    kernel: KernelTarget, guest: Guest, opening: tuple[Path, Path]
) -> None:
    """So has the library that it opens, in a process that ran before. A file that is mapped already has each probe
    once."""
    said = bytearray()
    words = ["sh", "-c", 'echo $$; read word; exec "$@"', "sh", str(opening[0]), str(TIMES), str(opening[1])]
    process = guest.link.spawn(words, said.extend, said.extend)
    assert guest.link.channel.until(lambda: b"\n" in said, PATIENCE)

    def work() -> None:
        process.write(b"go\n")
        assert process.wait(PATIENCE) == 0

    text = OPENED + 'pid$target:opens:middle:entry { @n["program"] = count(); } fbt::do_msgsnd:entry { }'
    files = "\n".join(map(str, (*opening, opening[1])))
    done = ran(kernel, text, pids=(int(said),), work=work, opened=files)
    assert counted(done.lines) == {**HITS, "program": 2 * TIMES} and not done.errors
    assert not guest.complaints()


def test_the_list_has_probes_of_several_processes(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The probes are listed once for all processes with $target, and for each with their numbers."""
    with turning(guest, users, 2) as (first, second):
        machine = OtherMachine(Elsewhere(kernel.link, lambda: None), kernel)
        for by_number in (False, True):
            machine.attend((first.pid, second.pid), by_number)
            texts = [ProgramText("description", Source("list", "pid*:a.out:inner:entry, users*:::turned"))]
            consumer = Consumer(texts, Macros({}, ("list",)), Options(), None, (), machine)
            consumer.compile(listing=True)
            found = sorted(consumer.enabled.probes[number].provider for number in consumer.enabled.clauses)
            pids = (first.pid, second.pid) if by_number else (first.pid,)
            assert found == sorted(f"{name}{pid}" for pid in pids for name in ("pid", "users"))


@pytest.mark.stress
def test_a_client_that_is_killed_leaves_nothing(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The process goes on meanwhile; with two clients, the other client's probe stays until that client goes."""
    with turning(guest, users, 1) as (process,):
        before = process.byte("inner")
        text = f"pid{process.pid}:a.out:inner:entry {{ @ = count(); }} fbt::do_msgsnd:entry {{ }}"
        first = Second(guest, text)
        try:
            assert process.byte("inner") == INT3
            consumer, _ = program(kernel, text, destructive="")  # nobody watches it, and the machine may be slow
            assert not consumer.start()
            process.turn(3)
        finally:
            first.kill()
        process.turn(4)
        assert process.byte("inner") == INT3
        assert list(consumer.tracing.aggregations.snapshot().values()) == [(2 * 7,)]
        guest.link.close_driver()
        assert process.byte("inner") == before
        process.turn(3)
        process.end()
    assert not guest.complaints()


def test_probes_that_do_not_exist_are_refused_by_name(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    command = [str(users), "1"]
    mixed = "fbt::do_msgsnd:entry { } "
    with pytest.raises(NoSuchProbe, match="maps no libnothing, but"):
        program(kernel, mixed + "pid$target:libnothing:f:entry { }", command)
    with pytest.raises(NoSuchProbe, match="pid and USDT are the only providers of processes"):
        program(kernel, mixed + "proc$target:::line { }", command)
    with pytest.raises(NoSuchProbe, match="no such process is traced"):
        program(kernel, mixed + "pid$target:::entry { }")
    with pytest.raises(TargetError, match="there is no process 999999 there"):
        program(kernel, mixed + "pid$target:::entry { }", pids=(999999,))
    consumer, _ = program(kernel, mixed + "pid$target:a.out:inner:entry { trace(fdflags(1)); }", command)
    with pytest.raises(UsageError, match="clause 2 cannot run in a kernel: fdflags\\(\\)") as caught:
        consumer.start()
    assert caught.value.slug == "not-in-kernel"
    consumer, _ = program(kernel, mixed + "pid$target:a.out:locked:entry, pid$target:a.out:inner:entry { }", command)
    refused = consumer.start()
    told = [str(getattr(each, "reason", each)) for each in refused]
    assert len(told) == 1 and "the kernel has no uprobe for the instruction" in told[0]
    assert consumer.machine is not None
    consumer.machine.close()
    guest.link.close_driver()
    assert not guest.complaints()


def test_a_file_changed_after_gilk_read_it_is_left_alone(
    kernel: KernelTarget, guest: Guest, users: Path, exchange: Path
) -> None:
    """The file changes after gilk has read it and before the driver opens it."""
    path, place = exchange / "changed", offset_of(users, "inner")
    content = bytearray(users.read_bytes())
    path.write_bytes(content)
    path.chmod(0o755)
    consumer, _ = program(kernel, "fbt::do_msgsnd:entry { } pid$target:a.out:inner:entry { }", [str(path), "1"])
    content[place] ^= 0xFF
    path.write_bytes(content)
    told = [str(getattr(each, "reason", each)) for each in consumer.start()]
    guest.link.close_driver()
    assert told == [f"the file is another one by now, or was changed, at {place:#x} of the file"]
    assert not guest.complaints()
