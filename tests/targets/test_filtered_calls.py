# SPDX-License-Identifier: LGPL-2.1-or-later
"""Filters of system calls as gilk runs them: the kernel, which is given the same filters, is the oracle."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import struct
import subprocess
import sys

import pytest

from gilk.errors import TargetError
from gilk.targets import ptrace
from gilk.targets.filtered_calls import _programs, answer
from gilk.targets.sharing import waits_for_child
from tests.behaviour.waiting import wait_for
from tests.seldom import seldom

_STEP = struct.Struct("<HBBI")
_GETPID, _ERRNO = 39, 0x50000
_CONSTANT = (0x04, 0x14, 0x24, 0x44, 0x54, 0xA4)  # add, sub, mul, or, and, xor of a constant
_OF_X = (0x0C, 0x1C, 0x2C, 0x4C, 0x5C, 0xAC)
_JUMPS = (0x15, 0x25, 0x35, 0x45, 0x1D, 0x2D, 0x3D, 0x4D)
_LIBC = ctypes.CDLL(None, use_errno=True)


def program(dice: random.Random) -> bytes:
    """A filter that answers getpid(2) with an error, which it computes from the call; it lets all other calls pass."""
    steps = [(0x02, 0, 0, n) for n in range(4)]  # memory that is read has to be written before
    steps += [_step(dice) for _ in range(dice.randrange(3, 20))]
    steps += [(0x04, 0, 0, 1)] * 2  # jumps end here at the latest
    steps += [(0x54, 0, 0, 0xFFF), (0x44, 0, 0, _ERRNO), (0x16, 0, 0, 0)]
    head = [(0x20, 0, 0, 0), (0x15, 1, 0, _GETPID), (0x06, 0, 0, 0x7FFF0000)]
    return b"".join(_STEP.pack(*one) for one in (*head, *steps))


def _step(dice: random.Random) -> tuple[int, int, int, int]:
    word = dice.choice([0, 1, 5, 0x7FFFFFFF, 0xFFFFFFFF, dice.getrandbits(32)])
    match dice.randrange(8):
        case 0:
            return dice.choice(_CONSTANT), 0, 0, word
        case 1:
            return dice.choice(_OF_X), 0, 0, 0
        case 2:
            return dice.choice(_JUMPS), dice.randrange(3), dice.randrange(3), word
        case 3:
            return dice.choice([0x02, 0x03]), 0, 0, dice.randrange(4)
        case 4:
            return dice.choice([0x60, 0x61]), 0, 0, dice.randrange(4)
        case 5:
            return dice.choice([0x07, 0x87, 0x84]), 0, 0, 0
        case 6:
            return dice.choice([0x64, 0x74, 0x34]), 0, 0, dice.randrange(1, 32)
    return dice.choice([(0x20, 0, 0, 0), (0x20, 0, 0, 4), (0x00, 0, 0, word), (0x01, 0, 0, word), (0x80, 0, 0, 0)])


def error_of_kernel(filtered: bytes) -> int:
    """The error of getpid(2) in a child that has the filter; 0 if there is none."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            room = ctypes.create_string_buffer(filtered)
            form = struct.pack("<HxxxxxxQ", len(filtered) // _STEP.size, ctypes.addressof(room))
            installed = not _LIBC.prctl(38, 1, 0, 0, 0) and not _LIBC.prctl(22, 2, form, 0, 0)
            found = _LIBC.syscall(_GETPID) if installed else 0
            os.write(write, struct.pack("<i?", ctypes.get_errno() if found < 0 else found, installed))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answered:
        os.waitpid(child, 0)
        error, installed = struct.unpack("<i?", answered.read())
    assert installed, "the kernel does not take the filter"
    return int(error)


@pytest.mark.parametrize("seed", seldom(range(5), 2))
def test_the_kernel_answers_as_gilk_computes(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        made = program(dice)
        assert answer(made, _GETPID) == _ERRNO | error_of_kernel(made), made.hex()
        assert answer(made, 186) == 0x7FFF0000


def test_a_thread_that_does_not_stop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread in vfork(2) does not stop until the child has executed a program or ended."""
    monkeypatch.setattr(ptrace, "wait", functools.partial(ptrace.wait, seconds=0.0))
    words = [sys.executable, "-c", "import ctypes; ctypes.CDLL(None).vfork() or input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as program:
        assert program.stdin is not None and wait_for(lambda: waits_for_child(program.pid))
        with pytest.raises(TargetError) as raised:
            _programs(program.pid)
        assert raised.value.slug == "busy"
        program.kill()
