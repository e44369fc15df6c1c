# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stock kernel as an image. The oracles are objdump, the kernel's own lists, and the places that its kprobes
accept."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gilk.analysis.kernel import KernelAnalysis
from gilk.image.kernel.build import NAME, KernelImage, kernel
from gilk.image.kernel.declarations import place, prototype
from gilk.lab import VM
from gilk.splice.kernel.blocks import Blocks, Instructions
from gilk.targets.kernel.image import identity, read, types

TRACING = "/sys/kernel/tracing"
#: tools/objtool of Linux 6.1 lists these by name, since it cannot derive them.
NORETURN = """
    __module_put_and_kthread_exit __stack_chk_fail cpu_bringup_and_idle cpu_startup_entry do_exit
    do_group_exit do_task_dead ex_handler_msr_mce fortify_panic kthread_complete_and_exit kthread_exit make_task_dead
    panic rewind_stack_and_make_dead sev_es_terminate snp_abort stop_this_cpu usercopy_abort
    """


@pytest.fixture(scope="module")
def live(vm: VM) -> KernelImage:
    mounted = vm.link.run(["sh", "-c", f"mount -t tracefs none {TRACING}; modprobe -a ext4 nf_tables; ls {TRACING}"])
    assert b"kprobe_events" in mounted[1], mounted
    return kernel(read(vm.link))


@pytest.fixture(scope="module")
def analysis(live: KernelImage) -> KernelAnalysis:
    return KernelAnalysis(live)


def objdump(data: bytes, address: int, path: Path) -> Iterator[tuple[int, str]]:
    """(address, text) of each instruction."""
    path.write_bytes(data)
    command = ["objdump", "-D", "-z", "-b", "binary", "-m", "i386:x86-64", f"--adjust-vma={address:#x}", str(path)]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split("\t")
        if len(fields) == 3:
            yield int(fields[0].strip(" :"), 16), fields[2]


class TestInstructions:
    def test_instructions_begin_where_objdump_has_them(self, live: KernelImage, tmp_path: Path) -> None:
        """The test compares a megabyte from the middle of the kernel, within functions."""
        text = live.snapshot.parts[0].text
        begin = next(s.start for s in live.image.spans if s.start >= text.address + (4 << 20))
        window = text.data[begin - text.address : begin - text.address + (1 << 20)]
        theirs = np.array([address for address, _ in objdump(window, begin, tmp_path / "text")], np.uint64)
        spans = [s for s in live.image.spans if begin <= s.start and s.end <= begin + len(window)]
        assert len(spans) > 1000
        starts = live.sweep.starts
        for span in spans:
            extent = np.array([span.start, span.end], np.uint64)
            first, last = np.searchsorted(starts, extent)
            low, high = np.searchsorted(theirs, extent)
            assert theirs[low:high].tolist() == starts[first:last].tolist(), span.name

    def test_branch_targets_are_those_of_objdump(self, live: KernelImage, tmp_path: Path) -> None:
        span = next(s for s in live.image.spans if s.name == "tcp_sendmsg_locked")
        code = live.image.read(span.start, span.end - span.start)
        direct = re.compile(r"(?:call|j\w+)\s+0x([0-9a-f]+)$")
        found = ((a, direct.match(text.strip())) for a, text in objdump(code, span.start, tmp_path / "f"))
        theirs = {a: int(match[1], 16) for a, match in found if match}
        rows = live.sweep.row(np.array(sorted(theirs), np.uint64))
        assert len(theirs) > 100
        assert live.sweep.targets[rows].tolist() == [theirs[a] for a in sorted(theirs)]


class TestFunctions:
    def test_ftrace_sites_are_those_in_ftraces_list(self, live: KernelImage, vm: VM) -> None:
        listed = set()
        for line in vm.link.read_file(f"{TRACING}/available_filter_functions").decode().splitlines():
            name, _, owner = line.partition(" ")
            if not name.startswith("__ftrace_invalid_address__"):  # its place has no name of its own any more
                listed.add((name, owner.strip(" []") or NAME))
        sites = set(live.fentries.tolist())
        found, surplus = set(), []
        for span, owner in zip(live.image.spans, live.owners, strict=True):
            if span.start in sites:
                names = {(name, owner) for name in (span.name, *span.aliases)}
                found |= names
                if not names & listed:
                    surplus.append(span.name)
        assert not listed - found
        assert len(surplus) < 20, surplus  # a static key at the head of an untraced function looks the same

    def test_functions_of_modules_are_in_the_image(self, live: KernelImage) -> None:
        owners = dict.fromkeys(live.owners)
        assert {NAME, "ext4", "nf_tables"} <= owners.keys()

    def test_noreturn_functions_are_derived(self, live: KernelImage, analysis: KernelAnalysis) -> None:
        wanted = set(NORETURN.split())
        returning = {
            name: analysis.returns.at(span.start)
            for span in live.image.spans for name in (span.name, *span.aliases) if name in wanted
        }  # fmt: skip
        assert returning.keys() == wanted
        assert [name for name, returns in returning.items() if returns] == []
        for name in ("vfs_read", "schedule", "kfree", "preempt_schedule_thunk", "__switch_to_asm"):
            assert analysis.returns.at(next(s.start for s in live.image.spans if s.name == name)), name

    def test_a_cold_part_leads_into_its_parent(self, live: KernelImage, analysis: KernelAnalysis) -> None:
        """kernel.md's example of something that a single function does not show: acpi_map_cpu.cold returns amid
        acpi_map_cpu."""
        parent = next(s for s in live.image.spans if s.name == "acpi_map_cpu")
        cold = next(s for s in live.image.spans if s.name == "acpi_map_cpu.cold")
        back = [to for _, to in analysis.jumps.out_of(cold.start, cold.end) if parent.start < to < parent.end]
        starts = {block.start for block in analysis.function(parent).blocks}
        assert back and set(back) <= starts


class TestReserved:
    def test_the_kprobe_blacklist_is_reserved(self, live: KernelImage, vm: VM) -> None:
        ranges = sorted((low, high) for low, high, _ in live.image.reserved)
        text = live.snapshot.parts[0].text
        for line in vm.link.read_file("/sys/kernel/debug/kprobes/blacklist").decode().splitlines():
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if text.address <= low < text.end:
                assert any(a <= low and high <= b for a, b in ranges), line

    def test_kprobes_refuse_reserved_code_and_accept_the_rest(self, live: KernelImage, vm: VM) -> None:
        """kprobes consult their blacklist, static keys, static calls and BUGs themselves.

        The test uses only functions that ftrace knows: kprobe events refuse all others.
        """
        chooser = random.Random(1)
        traced = [s for s in live.image.spans if s.start in live.image.conventional]
        starts = np.array([s.start for s in traced], np.uint64)
        ends = np.array([s.end for s in traced], np.uint64)
        sites: dict[str, list[int]] = {"static-key": [], "static-call": [], "bug": []}
        covered = np.zeros(len(live.sweep.starts), np.bool_)
        for low, high, why in live.image.reserved:
            first, last = np.searchsorted(live.sweep.starts, np.array([low, high], np.uint64))
            covered[first:last] = True
            row = int(np.searchsorted(starts, np.uint64(low), "right")) - 1
            if why in sites and row >= 0 and low < int(ends[row]):
                sites[why].append(low)
        refused = [at for found in sites.values() for at in chooser.sample(found, 15)]
        rows = np.searchsorted(starts, live.sweep.starts, "right") - 1
        free = live.sweep.starts[(rows >= 0) & (live.sweep.starts < ends[rows]) & ~covered & ~live.sweep.padding]
        accepted = chooser.sample(free.tolist(), 60)
        verdicts = verdicts_of(vm, [*refused, *accepted])
        assert [hex(at) for at in refused if verdicts[at]] == []
        assert [hex(at) for at in accepted if not verdicts[at]] == []

    def test_bugs_and_faults_are_single_instructions(self, live: KernelImage) -> None:
        """Every trap is a ud2; every site in a table is the start of an instruction."""
        sites = {low for low, _, why in live.image.reserved if why in ("bug", "faults", "static-key", "static-call")}
        assert len(sites) > 20_000
        assert np.all(live.sweep.row(np.array(sorted(sites), np.uint64)) >= 0)
        traps = [live.image.read(low, 2) for low, _, why in live.image.reserved if why == "bug"]
        assert set(traps) == {b"\x0f\x0b"}


def verdicts_of(vm: VM, addresses: list[int]) -> dict[int, bool]:
    """Whether the kernel lets a kprobe be defined at each address. None is left, and none is ever enabled."""
    script = f"""
        for at in {" ".join(f"{a:#x}" for a in addresses)}; do
            if echo "p:gilk/probe $at" 2>/dev/null >> {TRACING}/kprobe_events
            then echo "$at yes"; else echo "$at no"; fi
            echo "-:gilk/probe" 2>/dev/null >> {TRACING}/kprobe_events
        done
        """
    status, output, errors = vm.link.run(["sh", "-c", script])
    assert status in (0, 1), errors
    return {int(line.split()[0], 16): line.endswith("yes") for line in output.decode().splitlines()}


class TestBlocks:
    def test_arrays_have_the_blocks_of_the_analysis(self, live: KernelImage, analysis: KernelAnalysis) -> None:
        blocks = Blocks.of(Instructions(live, analysis))
        chosen = random.Random(2).sample(range(len(live.image.spans)), 400)
        for number in chosen:
            low, high = np.searchsorted(blocks.owner, [number, number + 1])
            starts, ends = live.sweep.starts[blocks.first[low:high]], live.sweep.ends[blocks.last[low:high]]
            mine = list(zip(starts.tolist(), ends.tolist(), strict=True))
            span = live.image.spans[number]
            assert mine == [(block.start, block.end) for block in analysis.function(span).blocks], span.name

    def test_no_branch_leads_into_the_middle_of_a_block(
        self, live: KernelImage, analysis: KernelAnalysis, tmp_path: Path
    ) -> None:
        """objdump's branches within a megabyte: the target of each begins a block, or is outside."""
        blocks = Blocks.of(Instructions(live, analysis))
        heads = set(live.sweep.starts[blocks.first].tolist()) | set(blocks.inner.tolist())
        text = live.snapshot.parts[0].text
        low = next(s.start for s in live.image.spans if s.start >= text.address + (6 << 20))
        window = text.data[low - text.address : low - text.address + (1 << 20)]
        jump = re.compile(r"j\w+\s+0x([0-9a-f]+)$")
        ends = {a: int(m[1], 16) for a, t in objdump(window, low, tmp_path / "text") if (m := jump.match(t.strip()))}
        inside = [to for at, to in ends.items() if live.image.span_at(at) and low <= to < low + len(window)]
        assert len(inside) > 10_000
        assert [hex(to) for to in inside if to not in heads and live.image.span_at(to)] == []


class TestTypes:
    def test_members_are_at_the_offsets_of_trace_events(self, vm: VM, live: KernelImage) -> None:
        """A format file describes a struct trace_event_raw_*; BTF describes the same struct."""
        btf = types(vm.link)
        compared = 0
        for event in ("sched/sched_switch", "kmem/kmalloc", "irq/irq_handler_entry", "sched/sched_process_fork"):
            text = vm.link.read_file(f"{TRACING}/events/{event}/format").decode()
            struct = f"trace_event_raw_{event.split('/')[1]}"
            for name, offset, size in re.findall(r"field:[^;]*?(\w+)(?:\[\w*\])?;\toffset:(\d+);\tsize:(\d+)", text):
                at = place(btf, struct, name)
                if at is not None:
                    assert (at.offset, at.size) == (int(offset), int(size)), (event, name)
                    compared += 1
        assert compared > 8

    def test_prototypes_are_those_of_the_headers(self, vm: VM) -> None:
        """The prototypes are those of Linux 6.1's headers."""
        btf = types(vm.link)
        expected = {
            "vfs_read": "ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)",
            "tcp_sendmsg": "int tcp_sendmsg(struct sock *sk, struct msghdr *msg, size_t size)",
            "_printk": "int _printk(const char *fmt, ...)",
        }
        for name, text in expected.items():
            found = prototype(btf, name)
            assert found is not None and found.text == text
        found = prototype(types(vm.link, "ext4"), "ext4_sync_file")
        assert found is not None and found.parameters[0].type == "struct file *"


def test_identity_changes_with_the_modules(vm: VM, live: KernelImage) -> None:
    before = identity(vm.link)
    assert before == identity(vm.link)
    assert vm.link.run(["modprobe", "dummy"])[0] == 0
    assert identity(vm.link) != before
    vm.link.run(["rmmod", "dummy"])
