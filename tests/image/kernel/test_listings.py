# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's listings: this machine's own, and malformed lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from gilk.errors import ImageError
from gilk.image.kernel import kallsyms, listings, tables
from gilk.image.kernel.denied import is_denied
from gilk.image.kernel.functions import heads, is_border
from gilk.image.kernel.snapshot import TextRegion

SYMBOLS = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t __do_sys_fork
ffffffff81000040 T __x64_sys_fork
ffffffff81000080 W weak_one
ffffffff81000080 t local.cold
ffffffff82000000 D a_variable
ffffffffc0000000 t cleanup_module\t[some_module]
ffffffffc0000000 t some_exit\t[some_module]
"""


class TestKallsyms:
    def test_symbols_are_found_by_name_and_module(self) -> None:
        symbols = kallsyms.parse(SYMBOLS)
        assert symbols.find("a_variable") == 0xFFFFFFFF82000000
        assert symbols.find("some_exit") is None  # it belongs to a module
        assert symbols.of_modules("some_exit") == {"some_module": 0xFFFFFFFFC0000000}
        assert [name for _, _, name, _ in symbols.text()][-1] == "some_exit"

    def test_names_that_users_would_type_come_first(self) -> None:
        texts = [TextRegion(0xFFFFFFFF81000000, bytes(4096)), TextRegion(0xFFFFFFFFC0000000, bytes(64))]
        found = heads(kallsyms.parse(SYMBOLS), texts)
        assert [head.names for head in found] == [
            ("__x64_sys_fork", "__do_sys_fork"), ("weak_one", "local.cold"), ("some_exit", "cleanup_module"),
        ]  # fmt: skip
        assert [head.local for head in found] == [False, False, True]

    @pytest.mark.parametrize("data", [b"", b"ffff", b"x T y", b"\xff\xff T z", b"0000000000000000 T _stext\n"])
    def test_symbols_without_addresses_are_refused(self, data: bytes) -> None:
        with pytest.raises(ImageError) as caught:
            kallsyms.parse(data)
        assert caught.value.slug == "kernel-symbols"


class TestListings:
    def test_modules_are_parsed(self) -> None:
        text = b"ext4 970752 1 - Live 0xffffffffc0516000\ndummy 16384 0 - Unloading 0xffffffffc0400000 (E)\n"
        first, second = listings.modules(text)
        assert (first.name, first.size, first.live, first.address) == ("ext4", 970752, True, 0xFFFFFFFFC0516000)
        assert not second.live

    def test_the_kprobe_blacklist_is_parsed(self) -> None:
        text = b"0xffffffff81601b20-0xffffffff81601b40\tasm_exc_nmi\n0xffffffff81000010-0xffffffff81000020\tearly\n"
        assert listings.blacklist(text) == (
            (0xFFFFFFFF81000010, 0xFFFFFFFF81000020), (0xFFFFFFFF81601B20, 0xFFFFFFFF81601B40),
        )  # fmt: skip

    @pytest.mark.parametrize("data", [b"x", b"0xz-0x1\ta", b"0x0-0x0\thidden\n", b"\xff"])
    def test_malformed_blacklists_are_refused(self, data: bytes) -> None:
        with pytest.raises(ImageError) as caught:
            listings.blacklist(data)
        assert caught.value.slug == "kernel-listing"

    def test_the_build_id_is_the_one_that_readelf_shows(self, tmp_path: Path) -> None:
        """A note section is laid out as /sys/kernel/notes."""
        notes = tmp_path / "notes"
        command = ["objcopy", "-O", "binary", "--only-section=.note.gnu.build-id", "/bin/bash", str(notes)]
        subprocess.run(command, check=True)
        shown = subprocess.check_output(["readelf", "-n", "/bin/bash"], text=True)
        assert f"Build ID: {listings.build_id(notes.read_bytes())}\n" in shown
        assert listings.build_id(b"") == listings.build_id(b"\x04\0\0\0") == ""


def test_borders_are_no_functions() -> None:
    assert all(map(is_border, ("_stext", "_etext", "__noinstr_text_start", "__indirect_thunk_end", "_text")))
    assert not any(map(is_border, ("vfs_read", "text_poke", "__x86_indirect_thunk_rax", "set_kernel_text_rw")))


def test_own_code_and_the_patching_of_code_are_denied() -> None:
    for name in ("text_poke_bp", "__text_poke", "notify_die", "__switch_to_asm", "ftrace_caller"):
        assert is_denied((name,), ""), name
    for name in ("vfs_read", "entry_attr_timeout", "schedule", "tcp_sendmsg", "context_switch"):
        assert not is_denied((name,), ""), name
    assert is_denied(("ilk_ioctl",), "ilk")


def test_tables_are_relative_to_their_own_fields(tmp_path: Path) -> None:
    """As the assembler lays them out: the oracle is nm."""
    source = tmp_path / "tables.s"
    source.write_text(
        ".text\n.globl one, two, three\none: nop\ntwo: nop\nthree: nop\n.data\n.globl faults, keys\n"
        "faults: .long one - ., two - ., 3\n.long three - ., one - ., 0\n"
        "keys: .long two - ., three - .\n.quad 0\n"
    )
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", str(tmp_path / "t"), str(source), "-Wl,-e,one"], check=True)
    command = ["objcopy", "-O", "binary", "--only-section=.data", str(tmp_path / "t"), str(tmp_path / "d")]
    subprocess.run(command, check=True)
    listed = subprocess.check_output(["nm", str(tmp_path / "t")], text=True)
    at = {name: int(address, 16) for address, _, name in map(str.split, listed.splitlines())}
    data = (tmp_path / "d").read_bytes()
    begin = at["faults"] - min(at["faults"], at["keys"])
    found = tables.exceptions(TextRegion(at["faults"], data[begin : begin + 24]))
    assert found.sites.tolist() == [at["one"], at["three"]]
    assert found.others.tolist() == [at["two"], at["one"]]
    begin = at["keys"] - min(at["faults"], at["keys"])
    keys = tables.static_keys(TextRegion(at["keys"], data[begin : begin + 16]))
    assert (keys.sites.tolist(), keys.others.tolist()) == ([at["two"]], [at["three"]])
    assert tables.bugs(TextRegion(0, b""))[0].dtype == np.uint64
