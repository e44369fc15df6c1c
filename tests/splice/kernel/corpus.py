# SPDX-License-Identifier: LGPL-2.1-or-later
"""Code with the kernel's compiler options (tests/corpus/kernel.*), as an image of a live kernel."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from gilk.analysis.analysis import Analysis
from gilk.analysis.jumps import JumpTargets
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.splice.kernel.host import kernel_context
from gilk.splice.patch_context import PatchContext
from gilk.splice.plan import Refusal
from tests.programs.build import OUT, compile_to, locked

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
LINKED = 0xFFFFFFFF81000000
LOW = 0x1000000
ARENA, ARENA_SIZE = 0xFFFFFFFFC0000000, 1 << 20
FLAGS = (
    "-O2", "-mcmodel=kernel", "-mno-red-zone", "-mindirect-branch=thunk-extern", "-mindirect-branch-register",
    "-mfunction-return=thunk-extern", "-fno-jump-tables", "-fno-pic", "-fno-pie", "-ffreestanding", "-nostdlib",
    "-static", "-fno-asynchronous-unwind-tables", "-mgeneral-regs-only", "-falign-functions=16", "-fcf-protection=none",
    "-fno-stack-protector", "-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount", "-Wl,--build-id=none",
    "-Wl,-e,leaf",
)  # fmt: skip
THUNKS = re.compile("__x86_")


@cache
def program(address: int = LINKED) -> Path:
    output = OUT / "kernel" / f"corpus-{address:x}"
    with locked(output):
        return compile_to(output, [CORPUS / "kernel.c", CORPUS / "kernel.S"], (*FLAGS, f"-Wl,-Ttext={address:#x}"))


@cache
def disassembly() -> dict[int, tuple[int, str]]:
    """The length and text of each instruction by its address, by objdump."""
    found = {}
    text = subprocess.run(["objdump", "-dw", program()], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*\t?(.*)", line)
        if match:
            found[int(match[1], 16)] = len(match[2].split()), match[3].strip()
    return found


@cache
def image() -> Image:
    """The image, with the reservations that the kernel's tables would make."""
    plain = load(program())
    nop = bytes.fromhex("0f1f440000")
    calls = [s.start for s in plain.spans if plain.read(s.start, 5) == nop]
    bugs = [address for address, (_, text) in disassembly().items() if text == "ud2"]
    (faults,) = [s.address for s in plain.symbols if s.name == "faults_here"]
    reserved = [(address, address + 5, Refusal.FENTRY) for address in calls]
    reserved += [(address, address + 2, Refusal.BUG) for address in bugs]
    reserved.append((faults, faults + disassembly()[faults][0], Refusal.FAULTS))
    return replace(plain, reserved=tuple(sorted(reserved)))


@cache
def analysis() -> Analysis:
    """The result of a scan for programs of the same code, at an address that a program may have."""
    low = JumpTargets.scan(load(program(LOW))).to_arrays()
    shift = np.uint64(LINKED - LOW)
    there = {name: rows if name == "traits" else rows.astype(np.uint64) + shift for name, rows in low.items()}
    return Analysis(image(), JumpTargets.from_arrays(there))


def ground(assume_live: int = 0) -> PatchContext:
    return kernel_context(analysis(), ARENA, ARENA_SIZE, assume_live=assume_live)


def code() -> dict[int, bytes]:
    return {s.address: s.data for s in image().segments if s.executable}


def read(address: int, size: int) -> bytes:
    return image().read(address, size)
