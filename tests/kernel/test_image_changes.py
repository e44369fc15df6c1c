# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel that others have already changed, and the facts that callers rely on about the kernel's functions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from iced_x86 import Instruction, Mnemonic, OpKind

from gilk.analysis.kernel import KernelAnalysis
from gilk.arch import decode as x86
from gilk.arch.effects import FINE_FLAGS, fine_effects, writes
from gilk.image.kernel.build import KernelImage, kernel
from gilk.image.model import FunctionSpan
from gilk.lab import VM
from gilk.targets.kernel.image import read

TRACING = "/sys/kernel/tracing"
#: rcx, rsi, rdi, r8 to r11: a function of the kernel may overwrite these, and returns nothing in them.
SCRATCH = sum(1 << register for register in (1, 6, 7, 8, 9, 10, 11)) | FINE_FLAGS


@pytest.fixture(scope="module")
def plain(vm: VM) -> KernelImage:
    return kernel(read(vm.link))


def span_of(found: KernelImage, name: str) -> FunctionSpan:
    return next(span for span in found.image.spans if span.name == name)


def reasons(found: KernelImage, start: int, end: int) -> set[str]:
    return {why for low, high, why in found.image.reserved if low < end and start < high}


@contextmanager
def told(vm: VM, before: str, after: str) -> Iterator[None]:
    """Run shell commands in the tracing directory, before and after the block."""
    status, _, errors = vm.link.run(["sh", "-c", f"mount -t tracefs none {TRACING}; set -e; cd {TRACING}; {before}"])
    assert status == 0, errors
    try:
        yield
    finally:
        assert vm.link.run(["sh", "-c", f"cd {TRACING}; {after}"])[0] == 0


@pytest.mark.stress
def test_a_function_traced_by_ftrace_is_analysed_as_before(vm: VM, plain: KernelImage) -> None:
    start = span_of(plain, "vfs_read").start
    with told(
        vm,
        "echo vfs_read > set_ftrace_filter; echo function > current_tracer",
        "echo nop > current_tracer; echo > set_ftrace_filter",
    ):
        traced = kernel(read(vm.link))
    assert plain.image.read(start, 1) == b"\x0f" and traced.image.read(start, 1) == b"\xe8"
    assert start in traced.fentries.tolist() and start in traced.image.conventional
    lost = set(plain.fentries.tolist()) ^ set(traced.fentries.tolist())
    assert {span.name for at in lost if (span := plain.image.span_at(at))} <= {"ftrace_call", "ftrace_regs_call"}
    before, after = KernelAnalysis(plain), KernelAnalysis(traced)
    assert [(b.start, b.end) for b in before.function(span_of(plain, "vfs_read")).blocks] == [
        (b.start, b.end) for b in after.function(span_of(traced, "vfs_read")).blocks
    ]


@pytest.mark.stress
def test_a_function_with_a_foreign_probe_is_left_alone(vm: VM, plain: KernelImage) -> None:
    span = span_of(plain, "vfs_write")
    site = plain.sweep.ends[plain.sweep.row(plain.sweep.starts[plain.sweep.starts >= span.start][:1])[0]]
    with told(
        vm,
        f"echo p:gilk/other {int(site):#x} > kprobe_events; echo 1 > events/gilk/other/enable",
        "echo 0 > events/gilk/other/enable; echo -:gilk/other >> kprobe_events",
    ):
        probed = kernel(read(vm.link))
    assert probed.snapshot.probes == (int(site),)
    assert plain.image.read(int(site), 1) != probed.image.read(int(site), 1)
    for low in (span.start, span.end - 1):
        assert "probed" in reasons(probed, low, low + 1)
        assert "probed" not in reasons(plain, low, low + 1)


@pytest.mark.stress
def test_freed_init_code_is_not_in_the_image(plain: KernelImage) -> None:
    """Init code was freed after boot, and other things lie there now."""
    low, high = (plain.snapshot.symbols.find(name) or 0 for name in ("_sinittext", "_einittext"))
    assert low < high
    assert not [span.name for span in plain.image.spans if low <= span.start < high]
    assert not any(low <= start < high for start, _, _ in plain.image.reserved)


@pytest.mark.stress
def test_callers_rely_on_the_calling_convention_only(plain: KernelImage) -> None:
    """gcc turns -fipa-ra off in code that is compiled for ftrace. If that were wrong, live registers would be taken for
    dead.

    After a call of such a function, no caller reads a register that the convention lets the function overwrite.
    """
    returns, conventional = KernelAnalysis(plain).returns, plain.image.conventional
    calls, wrong = 0, []
    for span in random.Random(6).sample(plain.image.spans, 2500):
        overwritten = 0
        for instruction in x86.decode(plain.image.read(span.start, span.end - span.start), span.start):
            if fine_effects(instruction)[0] & overwritten and not reads_only_in_name(instruction):
                wrong.append((span.name, hex(instruction.ip - span.start)))
            overwritten &= ~(fine_effects(instruction)[1] | writes(instruction))
            if instruction.flow_control:
                target = instruction.near_branch_target if x86.is_direct_call(instruction) else 0
                called = target in conventional and returns.at(target)
                overwritten, calls = (SCRATCH, calls + 1) if called else (0, calls)
    assert calls > 5000
    assert wrong == []


def reads_only_in_name(instruction: Instruction) -> bool:
    """Whether the instruction's result does not depend on the register: ``or reg, -1`` gives -1 whatever was there,
    and ``pushf`` is for the interrupt flag."""
    if instruction.mnemonic == Mnemonic.OR and instruction.op1_kind not in (OpKind.REGISTER, OpKind.MEMORY):
        return instruction.immediate(1) & 0xFFFFFFFF == 0xFFFFFFFF
    return instruction.mnemonic == Mnemonic.PUSHFQ
