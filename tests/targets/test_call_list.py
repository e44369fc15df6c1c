# SPDX-License-Identifier: LGPL-2.1-or-later
"""A target makes a list of system calls by itself; /proc tells what they did."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.targets import copies
from gilk.targets.call_list import END, LOOP, MOST, CallList
from gilk.targets.copies import Copy
from gilk.targets.keeper import Keeper
from gilk.targets.maps import read_maps
from gilk.targets.system_calls import MMAP, MUNMAP
from tests.behaviour.harness import Loop, leftovers, wait_for
from tests.programs.build import build
from tests.targets.keepers import borrowed, kept

_GETPID = 39
_PAGE = 4096
_ANONYMOUS = 0x22


def place(keeper: Keeper) -> CallList:
    assert keeper.held.calls is not None
    return keeper.held.calls


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop([build("hot8")]) as loop:
        yield loop


def test_the_code_of_the_loop_is_that_in_its_comments(tmp_path: Path) -> None:
    """The jumps lead to the first instruction and behind the loop; the last instruction is never executed."""
    (tmp_path / "loop").write_bytes(LOOP)
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", tmp_path / "loop"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split("\t") for line in text.splitlines() if line.startswith(" ")]
    code = {int(at.strip(" :"), 16): " ".join(words.split()) for at, words in lines}
    numbers = list(code)
    assert code[3] == f"js {numbers[14]:#x}"
    assert code[numbers[13]] == "jb 0x0"
    assert code[END] == "mov $0xf,%eax"
    assert next(at for at, text in code.items() if text == "syscall") == numbers[9]


@pytest.mark.parametrize("number", [0, 1, MOST, 2 * MOST + 1])
def test_all_system_calls_of_a_list_are_made(loop: Loop, number: int) -> None:
    with kept(loop.pid) as keeper, borrowed(keeper) as call:
        assert call.many(place(keeper), [(_GETPID,)] * number) == [loop.pid] * number
    assert leftovers(loop.pid) == []


def test_a_list_of_system_calls_ends_at_the_first_failure(loop: Loop) -> None:
    with kept(loop.pid) as keeper:
        with borrowed(keeper) as call:
            mapping = (MMAP, 0, _PAGE, 3, _ANONYMOUS, -1, 0)
            made = call.many(place(keeper), [mapping, (_GETPID,), (MUNMAP, 1, _PAGE), (_GETPID,), (_GETPID,)])
            assert made[1:] == [loop.pid, -errno.EINVAL]
            assert any(m.start <= made[0] < m.end for m in read_maps(loop.pid))
            call.unmap(made[0], _PAGE)
        assert keeper.present()


#: The program is the child of a shell: if it were this process's child, the keeper, which is in this process, might be
#: given its status.
_APART = 'exec 3<&0; "$0" loop <&3 & echo $!; wait $!; echo $?'


def test_a_foreign_sigtrap_is_not_taken_for_gilks() -> None:
    """The signal ends the program, as it would without gilk."""
    words = ["sh", "-c", _APART, str(build("hot8"))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        pid = next(int(line) for line in sorted(shell.stdout.readline() for _ in range(2)) if line != b"ready\n")
        with kept(pid) as keeper:
            with borrowed(keeper) as call:
                os.kill(pid, signal.SIGRTMAX)
                assert call.many(place(keeper), [(_GETPID,)] * 9) == [pid] * 9

            def ended() -> bool:
                keeper.process.threads.release_late()
                return not Path(f"/proc/{pid}").exists()

            assert wait_for(ended)
        assert shell.stdout.readline() == b"%d\n" % (128 + signal.SIGRTMAX)


def test_an_exchange_of_mappings_that_fails_is_undone(loop: Loop) -> None:
    """For each system call that may fail, the program's own mappings are where they were, with the same contents."""
    with kept(loop.pid) as keeper:
        mapping = next(m for m in read_maps(loop.pid) if m.executable and m.path.endswith("hot8"))
        before, code = _files(loop.pid), keeper.memory.read(mapping.start, mapping.end - mapping.start)
        made = copies.place(read_maps(loop.pid), [mapping])
        start, spare, shelf = (at + (1 << 30) for at in (made[0].start, made[0].spare, made[0].shelf))
        other = Copy(start, made[0].size, spare, shelf)  # a copy of nothing
        with borrowed(keeper) as call:
            copies.reserve(call, made)
        for attempt in ([made[0], other], [other], [other, made[0]]):
            with borrowed(keeper) as call, pytest.raises(OSError, match="Bad address"):
                copies.exchange_all(call, place(keeper), attempt)
            assert _files(loop.pid) == before
            assert keeper.memory.read(mapping.start, len(code)) == code
        with borrowed(keeper) as call:
            made[0].unmap(call)


def _files(pid: int) -> list[str]:
    return [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("hot8")]
