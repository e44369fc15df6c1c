# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel in miniature (small.S), whose labels say what must be found; nm tells where they are."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gilk.analysis.kernel import KernelAnalysis
from gilk.analysis.model import FLAGS_LIVE, Block, End
from gilk.image.kernel import kallsyms
from gilk.image.kernel.build import KernelImage, kernel, owner_at
from gilk.image.kernel.snapshot import KernelPart, KernelSnapshot, KernelTables, TextRegion
from gilk.splice.kernel.blocks import Blocks, Instructions

HERE = Path(__file__).parent
TEXT, DATA = 0xFFFFFFFF81000000, 0xFFFFFFFF82000000
RCX, RDX, RSI, RDI = 1 << 1, 1 << 2, 1 << 6, 1 << 7


class Small:
    """The miniature, read as a kernel is."""

    def __init__(self, folder: Path) -> None:
        program = folder / "small"
        where = [f"-Wl,-Ttext={TEXT:#x}", f"-Wl,-Tdata={DATA:#x}", "-Wl,-e,_stext", "-Wl,--build-id=none"]
        command = ["gcc", "-nostdlib", "-static", *where, "-o", str(program), str(HERE / "small.S")]
        subprocess.run(command, check=True)
        listed = subprocess.check_output(["nm", str(program)], text=True)
        self.at = {name: int(address, 16) for address, _, name in map(str.split, listed.splitlines())}
        inner = {"warn_trap", "behind_warn", "bug_trap", "key_site", "key_off", "key_on", "fault_site", "behind_fault",
                 "fixup", "middle", "behind_hlt", "call_site", "behind_call"}  # fmt: skip
        symbols = "".join(line + "\n" for line in listed.splitlines() if line.split()[2] not in inner)
        self.text, self.data = (self._section(program, name) for name in (".text", ".data"))
        tables = KernelTables(*(self._region(low, high) for low, high in (
            ("__start___ex_table", "__stop___ex_table"), ("__start___jump_table", "__stop___jump_table"),
            ("__start___bug_table", "__stop___bug_table"), ("__start_static_call_sites", "__stop_static_call_sites"),
        )))  # fmt: skip
        constants = self._region("__start_rodata", "__end_rodata")
        part = KernelPart("", TextRegion(TEXT, self.text[: self.at["_etext"] - TEXT]), constants, tables)
        blacklist = ((self.at["halts"], self.at["halts"] + 1),)
        self.snapshot = KernelSnapshot("6.1", "", "", kallsyms.parse(symbols.encode()), (part,), blacklist, ())
        self.kernel = kernel(self.snapshot)
        self.analysis = KernelAnalysis(self.kernel)

    @staticmethod
    def _section(program: Path, name: str) -> bytes:
        output = program.with_suffix(name)
        subprocess.run(["objcopy", "-O", "binary", f"--only-section={name}", str(program), str(output)], check=True)
        return output.read_bytes()

    def _region(self, low: str, high: str) -> TextRegion:
        start, end = self.at[low], self.at[high]
        return TextRegion(start, self.data[start - DATA : end - DATA])

    def patched(self, label: str, code: bytes) -> set[str]:
        """The functions that are refused as a whole if there is other code at a label, with the reasons."""
        (part,) = self.snapshot.parts
        at = self.at[label] - TEXT
        text = part.text.data[:at] + code + part.text.data[at + len(code) :]
        found = kernel(replace(self.snapshot, parts=(replace(part, text=TextRegion(TEXT, text)),)))
        whole = {(span.start, span.end): span.name for span in found.image.spans}
        return {f"{whole[low, high]}: {why}" for low, high, why in found.image.reserved if (low, high) in whole}

    def block(self, label: str) -> Block:
        """The block that holds a label."""
        span = self.kernel.image.span_at(self.at[label])
        assert span is not None
        found = self.analysis.function(span).block_at(self.at[label])
        assert found is not None
        return found

    def live(self, label: str) -> int:
        """The registers that are live before the instruction at a label."""
        span = self.kernel.image.span_at(self.at[label])
        assert span is not None
        steps = self.analysis.steps(self.analysis.function(span), self.block(label))
        return next(step.live for step in steps if step.instruction.ip == self.at[label])

    def reserved(self, label: str) -> set[str]:
        at = self.at[label]
        return {why for low, high, why in self.kernel.image.reserved if low <= at < high}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return Small(tmp_path_factory.mktemp("small"))


class TestFlow:
    def test_a_function_goes_on_after_a_warning(self, small: Small) -> None:
        assert small.block("warn_trap").successors == (small.at["behind_warn"],)
        assert small.live("warn_trap") & (RSI | RCX | FLAGS_LIVE) == RSI

    def test_a_function_ends_at_a_bug(self, small: Small) -> None:
        assert small.block("bug_trap").successors == ()
        assert small.block("bug_trap").how is End.STOP

    def test_functions_that_only_call_noreturn_functions_do_not_return(self, small: Small) -> None:
        assert not small.analysis.returns.at(small.at["bugs"])
        assert not small.analysis.returns.at(small.at["never"])
        for name in ("calls_never", "warns", "parent", "parent.cold", "jumps_by_register", "halts"):
            assert small.analysis.returns.at(small.at[name]), name

    def test_a_static_key_leads_both_ways(self, small: Small) -> None:
        block = small.block("key_site")
        assert set(block.successors) == {small.at["key_off"], small.at["key_on"]}
        assert small.live("key_site") & RDX  # read only by the code to which the key leads when it is on

    def test_a_fault_leads_to_its_fixup(self, small: Small) -> None:
        block = small.block("fault_site")
        assert set(block.successors) == {small.at["behind_fault"], small.at["fixup"]}
        assert small.live("fault_site") & RCX  # overwritten, unless there is a fault

    def test_a_static_call_that_is_off_may_read_arguments(self, small: Small) -> None:
        assert small.live("call_site") & (RDI | RSI | RDX) == RDI | RSI | RDX
        assert small.block("call_site").successors == (small.at["behind_call"],)

    def test_a_jump_to_the_return_thunk_is_a_return(self, small: Small) -> None:
        assert small.block("behind_warn").how is End.RETURN

    def test_jumps_and_calls_by_register(self, small: Small) -> None:
        assert small.block("jumps_by_register").how is End.TAIL_INDIRECT
        span = small.kernel.image.span_at(small.at["calls_by_register"])
        assert span is not None
        assert [target for _, target in small.analysis.function(span).calls] == [0]

    def test_cold_parts_return_into_the_middle(self, small: Small) -> None:
        assert small.block("middle").start == small.at["middle"]
        assert small.block("parent.cold").target == small.at["middle"]

    def test_hlt_does_not_end_a_function(self, small: Small) -> None:
        assert small.block("behind_hlt").start == small.at["behind_hlt"]

    def test_arrays_have_the_same_blocks_as_the_analysis(self, small: Small) -> None:
        blocks = Blocks.of(Instructions(small.kernel, small.analysis))
        starts, ends = small.kernel.sweep.starts[blocks.first], small.kernel.sweep.ends[blocks.last]
        functions = small.analysis.functions()
        theirs = [(block.start, block.end) for function in functions for block in function.blocks]
        assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == theirs


class TestReserved:
    @pytest.mark.parametrize(
        ("label", "reason"),
        [
            ("warn_trap", "bug"), ("bug_trap", "bug"), ("key_site", "static-key"), ("call_site", "static-call"),
            ("fault_site", "faults"), ("warns", "ftrace"), ("text_poke", "unsafe"), ("halts", "blacklisted"),
            ("__x86_return_thunk", "thunk"), ("__SCT__hook", "thunk"),
        ],
    )  # fmt: skip
    def test_reserved_code_has_its_reason(self, small: Small, label: str, reason: str) -> None:
        assert reason in small.reserved(label)

    @pytest.mark.parametrize(
        "label", ["behind_warn", "key_on", "key_off", "fixup", "behind_fault", "middle", "behind_call"]
    )
    def test_other_code_is_not_reserved(self, small: Small, label: str) -> None:
        assert small.reserved(label) == set()

    def test_a_cold_part_is_reserved_with_its_function(self, small: Small) -> None:
        start = small.at["parent"]
        found = kernel(replace(small.snapshot, blacklist=((start, start + 1),)))
        assert small.at["parent.cold"] in {low for low, _, why in found.image.reserved if why == "blacklisted"}
        assert "blacklisted" not in small.reserved("parent.cold")


ARENA = TEXT + (1 << 29)


class TestForeign:
    """Patches by others, which the kernel does not list."""

    PLAIN = frozenset({"text_poke: unsafe", "halts: blacklisted"})

    def jump(self, small: Small, label: str) -> bytes:
        return b"\xe9" + (ARENA - small.at[label] - 5).to_bytes(4, "little", signed=True)

    def found(self, small: Small, label: str, code: bytes) -> set[str]:
        return {each for each in small.patched(label, code) - self.PLAIN if not each.endswith("thunk")}

    def test_unchanged_code_is_not_foreign(self, small: Small) -> None:
        assert self.found(small, "key_off", b"") == set()

    def test_a_jump_to_an_unnamed_place_is_foreign(self, small: Small) -> None:
        assert self.found(small, "key_off", self.jump(small, "key_off")) == {"switches: taken"}

    def test_a_trap_at_a_jump_target_is_foreign(self, small: Small) -> None:
        assert self.found(small, "key_on", b"\xcc") == {"switches: taken"}
        assert self.found(small, "behind_warn", b"\xcc") == {"warns: taken"}

    def test_a_trap_that_code_runs_into_is_foreign(self, small: Small) -> None:
        assert self.found(small, "behind_fault", b"\xcc") == {"faults: taken"}

    def test_a_jump_by_way_of_padding_is_foreign(self, small: Small) -> None:
        """A jump in the padding behind a function, to which two bytes in the function lead."""
        pad = small.at["bug_trap"] + 2
        distance = (ARENA - pad - 5).to_bytes(4, "little", signed=True)
        back = (pad - small.at["behind_warn"] - 2).to_bytes(1, "little", signed=True)
        between = small.text[small.at["behind_warn"] + 2 - TEXT : pad - TEXT]
        assert self.found(small, "behind_warn", b"\xeb" + back + between + b"\xe9" + distance) >= {"warns: taken"}


class TestImage:
    def test_functions_end_where_their_code_does(self, small: Small) -> None:
        spans = {span.name: span for span in small.kernel.image.spans}
        assert spans["parent"].end == small.at["middle"] + 1
        assert not {"_stext", "_etext", "__indirect_thunk_start"} & spans.keys()

    def test_callers_know_conventional_functions_by_the_convention_only(self, small: Small) -> None:
        conventional = {name for name, at in small.at.items() if at in small.kernel.image.conventional}
        assert {"warns", "faults", "parent"} <= conventional
        assert not {"halts", "text_poke", "parent.cold", "__SCT__hook"} & conventional

    def test_constants_that_point_into_functions_are_entries(self, small: Small) -> None:
        assert small.analysis.jumps.pointers.view(np.uint64).tolist() == [small.at["middle"]]

    def test_the_owner_of_an_address(self, small: Small) -> None:
        assert owner_at(small.kernel.image, TEXT) == "kernel"
        assert owner_at(small.kernel.image, DATA) == ""
        assert set(small.kernel.owners) == {"kernel"}


def test_a_kernel_without_any_code_has_no_functions(small: Small) -> None:
    symbols = kallsyms.parse(b"ffffffff81000000 T _stext\n")
    empty = TextRegion(TEXT, b"")
    part = KernelPart("", empty, empty, KernelTables(empty, empty, empty, empty))
    found: KernelImage = kernel(KernelSnapshot("", "", "", symbols, (part,), (), ()))
    assert found.image.spans == ()
