# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs whose signal handlers switch stacks: most contexts wait in a handler, where no thread is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

import gilk
from gilk.errors import TargetError
from gilk.targets import changing, movement, ptrace, spawning
from gilk.targets.maps import read_maps
from gilk.targets.memory import ProcessMemory
from gilk.targets.movement import Busy, Movement
from gilk.targets.places import Places
from gilk.targets.thread import Thread
from tests.behaviour.harness import Loop, cpu, differences, ended, leftovers, wait_for
from tests.programs.build import build, compile_text
from tests.seldom import seldom
from tests.targets.test_restore import CLIENT, session_in

ENOUGH = 20000
#: An instrument that is over when there is a letter to be read.
STAYS = """
#include <gilk.h>
void stay(unsigned iid)
{
    char letter;
    long got;
    (void)iid;
    __asm__ volatile("syscall" : "=a"(got) : "0"(0L), "D"(0L), "S"(&letter), "d"(1L) : "rcx", "r11", "memory");
}
"""
PARKED, INCLUDED = Path(__file__).parents[1] / "programs" / "bare" / "parked.c", '#include "computing.h"\n'
#: The beginnings of instructions in patches: one reads where the thread's own data is, one adds to a counter, one moves
#: the stack pointer, one reserves the place of a record.
READS_OWNER, COUNTS, STEPS_OVER, RESERVES = map(bytes.fromhex, ("f3490fae", "6549ff", "488da424", "65480fb1"))
CALLS = b"\xe8"
BEGINS = {"count": READS_OWNER, "stamp": STEPS_OVER}
#: In place of what it includes. At 8 and at 11 are instructions of three bytes.
WORK = r"""
unsigned long work(int n, unsigned long a, unsigned long b);
__asm__(".text\n.type work, @function\nwork: mov %rsi, %rax\n"
        "0: lea 1(%rax, %rax, 2), %rax\nxor %rdx, %rax\nadd %rdx, %rax\ndec %edi\njnz 0b\nret\n.size work, . - work\n");
"""
TRAP = 1 << 8  # of the flags
STEPS = 100_000  # instructions within which each patch of a loop is executed


@pytest.mark.parametrize("instrument", seldom(["stamp", "time", "count"], 1))
@pytest.mark.parametrize("variant", ["default", "static"])
def test_contexts_that_wait_in_signal_handlers_go_on(instrument: str, variant: str) -> None:
    """Most of the 24 contexts are amid a patch when it is taken out: it stays until they have left it, and is gone
    afterwards."""
    with Loop([build("green", variant)]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(5):
            with target.session() as session:
                session.insert("green:hot:" + ("entry" if instrument == "time" else "blocks"), instrument)
                if instrument == "count":
                    assert wait_for(lambda session=session: sum(session.counts().values()) > ENOUGH)
                else:  # no record may come, if the first context stops amid its record
                    for _ in range(20):
                        session.poll()
            assert session.restored is True
            assert differences(loop.pid) == []
            assert wait_for(lambda: leftovers(loop.pid) == [])


def test_handlers_see_the_original_address_while_other_contexts_wait(tmp_path: Path) -> None:
    """The note is kept in the context itself, so there may be more of them than threads, blocks or slots."""
    source = tmp_path / "plain.c"
    source.write_text(
        "#include <gilk.h>\nvoid plain(unsigned iid) { (void)iid; for (volatile int i = 0; i < 50; i++); }\n"
    )
    with Loop([build("green")]) as loop, gilk.attach(loop.pid) as target:
        with target.session() as session:
            session.insert("green:hot:blocks", f"{source}:plain")
            session.insert("green:take_turns:entry", "count")
            assert wait_for(lambda: sum(session.counts().values()) > 200)
        assert session.restored is True
        assert differences(loop.pid) == []


@contextmanager
def parked(path: Path | None = None, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [path or build("parked"), *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        try:
            assert heard(program) == b"ready\n"
            yield program
        finally:
            program.kill()


def heard(program: subprocess.Popen[bytes]) -> bytes:
    assert program.stdout
    return program.stdout.readline()


def tell(program: subprocess.Popen[bytes], letter: bytes) -> None:
    assert program.stdin
    program.stdin.write(letter)
    program.stdin.flush()


def signal_amid_a_patch(pid: int) -> int:
    """Send SIGUSR1 where a patch has stepped over the red zone and has not stepped back yet."""
    code = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    outside = ptrace.get_registers(pid)
    for _ in range(STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid)
        assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
        now = ptrace.get_registers(pid)
        if not any(now.rip in each for each in code):
            outside = now
        elif now.rsp < outside.rsp - 128:
            return ptrace.call(ptrace.DETACH, pid, 0, signal.SIGUSR1)
    raise AssertionError("no patch steps over the red zone")


def detach_with_signal(pid: int) -> None:
    """Let go of a process that was executed step by step, with SIGUSR1."""
    now = ptrace.get_registers(pid)
    now.eflags &= ~TRAP  # a pushf that was stepped over has saved it, and a popf taken it for the program's
    ptrace.set_registers(pid, now)
    ptrace.call(ptrace.DETACH, pid, 0, signal.SIGUSR1)


def signal_behind(pid: int, code: bytes, first: Callable[[], object] = lambda: None) -> None:
    """Send SIGUSR1 where the process has just executed an instruction of gilk's memory that begins with ``code``.
    ``first`` is called when the process stands still."""
    places = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    first()
    with ProcessMemory(pid) as memory:
        for _ in range(STEPS):
            before = ptrace.get_registers(pid).rip
            ptrace.call(ptrace.SINGLESTEP, pid)
            assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
            if any(before in each for each in places) and memory.some(before, len(code)) == code:
                return detach_with_signal(pid)
    raise AssertionError("no such instruction is executed")


def blocked_in_read(pid: int) -> bool:
    """Whether the process waits in read(2) of standard input (proc(5), /proc/PID/syscall)."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")


def computes_again(program: subprocess.Popen[bytes]) -> None:
    """Let the first context, which waits, go on, until it computes."""
    ticks = cpu(program.pid)
    tell(program, b"g")
    wait_for(lambda: cpu(program.pid) > ticks + 1)


def goes_on(program: subprocess.Popen[bytes]) -> None:
    """Let the first context, which waits, go on: it computes what it should until it is interrupted, and ends."""
    tell(program, b"g")
    os.kill(program.pid, signal.SIGUSR1)
    assert heard(program) == b"parked\n", ended(program)
    tell(program, b"e")
    assert program.wait() == 0


def test_a_context_that_never_comes_back_is_led_out_of_its_patch() -> None:
    """Whether it comes back is not known; so nothing of gilk's would ever be taken out, and no other session let in."""
    with parked() as program, gilk.attach(program.pid) as target:
        for letter in (b"g", b"g", b""):
            with target.session() as session:
                session.insert("parked:work:blocks-post", "count")
                signal_amid_a_patch(program.pid)
                assert heard(program) == b"parked\n"
            assert session.restored is True
            assert not session.notes
            assert differences(program.pid) == [] and leftovers(program.pid) == []
            tell(program, letter)
        goes_on(program)


#: A function that saves registers, calls another one and has a loop.
DEEP = """
#include <gilk.h>
static unsigned long sums[64];
__attribute__((noinline)) static unsigned long sum(unsigned long from, unsigned long to)
{
    unsigned long all = 0, one;
    for (one = from; one < to; one++)
        all += one * (to ^ all);
    return all;
}
void deep(const struct gilk_regs *regs, unsigned iid)
{
    unsigned long a = regs->rax, b = sum(iid, 5), c = sum(b, b + 3);
    sums[a & 63] += a + b + c + sum(c, c + 2);
}
"""


def signal_inside(pid: int, steps: int) -> None:
    """Send SIGUSR1 to a process that has executed so many instructions of gilk's memory."""
    code = [range(m.start, m.end) for m in read_maps(pid) if "x" in m.permissions and "memfd:gilk" in m.path]
    inside = 0
    ptrace.seize(pid)
    ptrace.call(ptrace.INTERRUPT, pid)
    os.waitpid(pid, ptrace.WALL)
    for _ in range(STEPS):
        ptrace.call(ptrace.SINGLESTEP, pid)
        assert os.WIFSTOPPED(os.waitpid(pid, ptrace.WALL)[1])
        now = ptrace.get_registers(pid)
        is_inside = any(now.rip in each for each in code)
        inside += is_inside
        if is_inside and inside >= steps:
            return detach_with_signal(pid)
    raise AssertionError("the process does not come into gilk's memory")


def check_led_out(instrument: object, moments: Iterable[int], *words: object) -> None:
    """Interrupt a program after so many instructions of gilk's, for each of ``moments``, and end the session. The
    program, which is told ``words``, goes on rightly, and nothing is left."""
    with parked(None, *words) as program, gilk.attach(program.pid) as target:
        for steps in moments:
            with target.session() as session:
                session.insert("parked:work:blocks", instrument)
                signal_inside(program.pid, steps)
                assert heard(program) == b"parked\n"
            assert session.restored is True
            assert not session.notes, (steps, session.notes)
            assert leftovers(program.pid) == []
            tell(program, b"g")
        tell(program, b"e")
        os.kill(program.pid, signal.SIGUSR1)
        assert heard(program) == b"parked\n", ended(program)
        assert program.wait() == 0


@pytest.mark.parametrize("kind", seldom(["deep", "stamp", "count", "args"], 2))
def test_contexts_inside_the_functions_of_instruments_are_led_out(kind: str, tmp_path: Path) -> None:
    """A C instrument is called by way of the runtime, and calls functions of its own."""
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    check_led_out(f"{source}:deep" if kind == "deep" else kind, range(3, 100, 12))


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["count", "stamp", "args", "deep"])
def test_contexts_at_every_instruction_of_instruments_are_led_out(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    check_led_out(f"{source}:deep" if kind == "deep" else kind, range(1, 200))


def test_a_context_resumes_in_a_removed_patch_and_waits_again() -> None:
    """The context goes on in the patch when the session has ended, though its handler was shown the original
    address."""
    with parked() as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            counts = session.insert("parked:work:blocks-post", "count")
            session.insert("parked:ask:entry", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            session.remove(counts)
            tell(program, b"s")
            assert heard(program) == b"parked\n"
        assert session.restored is True
        assert differences(program.pid) == []
        goes_on(program)


def with_three_bytes(place: Path) -> Path:
    """The program `parked` with an instruction of three bytes at 8 and at 11 in the function that computes."""
    text = PARKED.read_text()
    assert INCLUDED in text
    return compile_text(place, "parked", text.replace(INCLUDED, WORK), "-O2", f"-I{PARKED.parents[1]}")


@pytest.mark.parametrize("instrument", ["count", "stamp"])
def test_a_context_is_led_out_of_a_removed_patch_into_which_a_jump_is_inserted(instrument: str, tmp_path: Path) -> None:
    """It has not begun the work of the instrument, and never comes back during the session."""
    with parked(with_three_bytes(tmp_path)) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            first = session.insert("parked:work:+0x8", instrument)
            signal_behind(program.pid, BEGINS[instrument])
            assert heard(program) == b"parked\n"
            session.remove(first)
            session.insert("parked:work:+0xb", "count")
        assert session.restored is True
        assert not session.notes
        assert differences(program.pid) == [] and leftovers(program.pid) == []
        goes_on(program)


@pytest.mark.parametrize("code", [READS_OWNER, COUNTS], ids=["before", "behind"])
def test_each_round_is_counted_once_though_contexts_are_led_to_other_patches(code: bytes, tmp_path: Path) -> None:
    """Two instructions of a loop are counted. A context that waits amid a patch is led to the one that replaces it, ten
    times; there it counts if it has not yet done so."""
    with parked(with_three_bytes(tmp_path)) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n"
            session.insert("parked:work:+0x3", "count")
            session.insert("parked:work:+0x8", "count")
            for _ in range(10):
                computes_again(program)
                signal_behind(program.pid, code)
                assert heard(program) == b"parked\n"
                more = session.insert("parked:work:+0xb", "count")
                session.remove(more)
            computes_again(program)
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n", ended(program)
            first, second, _ = session.counts().values()
            assert first > 10 and abs(first - second) <= 1
        assert session.restored is True
        goes_on(program)


def test_no_jump_is_inserted_where_a_waiting_context_would_return_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits in a patch that has gone, which leads back behind two instructions: to the middle of a jump, if one was
    put at the second. Its record is half written."""
    program_of = with_three_bytes(tmp_path)
    monkeypatch.setattr(changing, "_PATIENCE", 1.0)
    spawning.begin()  # a keeper, which has that patience
    with parked(program_of) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            first = session.insert("parked:work:+0x8", "stamp")
            signal_behind(program.pid, RESERVES, session.poll)  # no record is reserved in a buffer that is full
            assert heard(program) == b"parked\n"
            session.remove(first)
            with pytest.raises(TargetError, match="handler that waits") as refused:
                session.insert("parked:work:+0xb", "count")
            assert refused.value.slug == "busy"
            computes_again(program)  # and has left the patch
            os.kill(program.pid, signal.SIGUSR1)
            assert heard(program) == b"parked\n", ended(program)
            session.insert("parked:work:+0xb", "count")
        assert session.restored is True
        assert differences(program.pid) == []
        goes_on(program)


def test_a_waiting_context_goes_on_though_a_thread_does_not_leave_an_instrument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All goes without that thread when it has been waited for; yet the context finds where it was, and not only what
    its handler was shown."""
    source = tmp_path / "stays.c"
    source.write_text(STAYS)
    monkeypatch.setattr(changing, "_PATIENCE", 1.0)
    spawning.begin()  # a keeper, which has that patience
    with parked() as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            session.insert("parked:work:blocks-post", "count")
            session.insert("parked:ask:entry", f"{source}:stay")
            signal_amid_a_patch(program.pid)
            wait_for(lambda: blocked_in_read(program.pid))
        assert session.restored is True
        assert any("stays mapped" in note for note in session.notes)
        assert differences(program.pid) == []
        tell(program, b".")
        assert heard(program) == b"parked\n"
        goes_on(program)


def test_a_context_waiting_in_a_patch_goes_on_after_gilk_restore() -> None:
    with parked() as program:
        with session_in(program.pid, CLIENT.replace("hot:blocks", "parked:work:blocks-post")) as keeper:
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"parked\n"
            os.kill(keeper, signal.SIGKILL)
        gilk.restore(program.pid)
        assert differences(program.pid) == []
        goes_on(program)


def test_an_abandoned_signal_frame_in_a_patch_does_not_hold_a_session() -> None:
    """One handler was left by a jump, and nobody knows whether it will go on; another has returned."""
    with parked(build("leftover")) as program, gilk.attach(program.pid) as target:
        with target.session() as session:
            session.insert("leftover:work:blocks-post", "count")
            signal_amid_a_patch(program.pid)
            assert heard(program) == b"returns\n"
            tell(program, b"l")
            assert heard(program) == b"leaves\n"
        assert session.restored is True
        assert differences(program.pid) == []
        assert wait_for(lambda: leftovers(program.pid) == [])
        tell(program, b"e")
        assert program.wait() == 0


def restored_in(program: subprocess.Popen[bytes], instrument: str, steps: int) -> bool:
    """Interrupt a patch of a program after so many instructions, kill client and keeper, and restore. Returns whether
    the context that waits was led out."""
    insertion = CLIENT.replace("hot:blocks", "parked:work:blocks-post").replace('"count"', repr(instrument))
    with session_in(program.pid, insertion) as keeper:
        ticks = cpu(program.pid)
        wait_for(lambda: cpu(program.pid) > ticks + 1)  # the thread has its buffer
        signal_inside(program.pid, steps)
        assert heard(program) == b"parked\n"
        os.kill(keeper, signal.SIGKILL)
    restored = gilk.restore(program.pid)
    assert differences(program.pid) == []
    return not restored.waiting


@pytest.mark.parametrize("instrument", seldom(["args", "count", "stamp"], 1))
def test_restore_leads_a_handler_that_waits_out_of_its_patch(instrument: str) -> None:
    """Nobody who knows the plans is left; but the runtime's table has the places in the patches. A frame may lie across
    two pages, in which case its context stays: not in three programs, one after the other."""
    for _ in range(3):
        with parked() as program:
            led = [restored_in(program, instrument, 2)]
            for steps in (9, 16):
                tell(program, b"g")
                led.append(restored_in(program, instrument, steps))
            goes_on(program)
        if all(led):
            return
    raise AssertionError("the contexts stay")


def test_restore_refuses_new_sessions_while_a_handler_waits_in_a_function_of_gilk(tmp_path: Path) -> None:
    """Another session would end by taking from the handler what it needs there: the program died by SIGSEGV. The
    functions that patches call are not in the runtime's table."""
    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    insertion = CLIENT.replace("hot:blocks", "parked:work:blocks-post").replace('"count"', f'"{source}:deep"')
    with parked() as program:
        with session_in(program.pid, insertion) as keeper:
            signal_behind(program.pid, CALLS)
            assert heard(program) == b"parked\n"
            os.kill(keeper, signal.SIGKILL)  # who knew the way out of the patch
        for _ in range(2):
            assert gilk.restore(program.pid).waiting
            with pytest.raises(TargetError) as caught, gilk.attach(program.pid) as target, target.session():
                pass
            assert caught.value.slug == "gs-in-use"
        ticks = cpu(program.pid)
        tell(program, b"g")
        assert wait_for(lambda: cpu(program.pid) > ticks)  # the first context has gone on, and out of the patch
        os.kill(program.pid, signal.SIGUSR1)
        assert heard(program) == b"parked\n", ended(program)
        assert differences(program.pid) == []
        restored = gilk.restore(program.pid, force=True)  # its old frame is in memory still
        assert restored.bytes == {}
        with gilk.attach(program.pid) as target, target.session() as session:
            session.insert("parked:work:blocks-post", "count")
        assert session.restored is True
        goes_on(program)


@pytest.mark.parametrize("kind", seldom(["deep", "stamp", "count", "args"], 1))
def test_memory_goes_when_threads_leave_an_instrument_late(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may be on its way to a thread at each look at it, on a machine that is busy enough: then its patch is
    taken out all the same. The threads check their work all the time."""

    def stays(self: Movement, thread: Thread, old: Places, new: Places) -> NoReturn:
        raise Busy

    source = tmp_path / "deep.c"
    source.write_text(DEEP)
    monkeypatch.setattr(changing, "_PATIENCE", 0.2)
    monkeypatch.setattr(Movement, "_settle", stays)
    spawning.begin()  # a keeper, which has that patience
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target:
        for _ in range(6):
            with target.session() as session:
                session.insert("hot8:*:blocks", f"{source}:deep" if kind == "deep" else kind)
                wait_for(lambda session=session: session.poll() is not None)
            assert session.restored is True
            assert not session.notes
            assert differences(loop.pid) == [] and leftovers(loop.pid) == []


@pytest.mark.parametrize("kind", seldom(["args", "count", "stamp"], 1))
def test_threads_that_cannot_go_on_are_led_between_instruments(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals may come to a thread faster than it is stopped. The threads check their work all the time."""
    monkeypatch.setattr(movement, "_LONGEST", -1.0)
    monkeypatch.setattr(movement, "_TRIES", 0)
    spawning.begin()  # a keeper, which lets no thread go on
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("hot8:*:entry", "count")
        for _ in range(8):
            probes = session.insert("hot8:*:blocks", kind)
            wait_for(lambda: session.poll() is not None)
            session.remove(probes)
        session.close()
        assert session.restored is True
        assert not session.notes
        assert differences(loop.pid) == [] and leftovers(loop.pid) == []
