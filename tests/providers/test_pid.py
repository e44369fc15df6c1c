# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``pidN``: addresses, wrong descriptions, and processes that only descriptions name."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from tests.behaviour.harness import Loop, differences, leftovers
from tests.programs.build import build
from tests.providers.sessions import traced


@pytest.mark.parametrize(
    ("description", "tag", "message"),
    [
        ("pid0:::entry", "D_PROC_BADPID", "pid0 does not contain a valid pid"),
        ("pid$target:a.out:nosuch:entry", "D_PROC_FUNC", "failed to lookup 'nosuch' in module 'a.out'"),
        ("pid$target:a.out:hot:beginning", "D_PROC_NAME", "'beginning' is an invalid probe name"),
        ("pid$target:a.out:h?t:beginning", "D_PROC_NAME", "'beginning' is an invalid probe name"),
        ("pid$target::_exit:1000", "D_PROC_OFF", "offset 0x1000 outside of function '_exit'"),
        ("pid$target:a.out:hot:1", "D_PROC_CREATEFAIL", "no instruction begins there"),
        ("pid$target::-:", "D_PROC_NAME", "only individual addresses"),
        ("pid$target::-:10*", "D_PROC_NAME", "only individual addresses"),
        ("pid$target::-:main", "D_PROC_NAME", "'main' is an invalid probe name"),
        ("pid$target:libc:-:800", "D_PROC_LIB", "only the a.out module"),
        ("pid$target::-:1", "D_PROC_CREATEFAIL", "no instruction of the program begins there"),
        ("pid$target:nosuch.so::entry", "D_PDESC_ZERO", "does not match any probes"),
        ("pid$target::nosuch:entry", "D_PDESC_ZERO", "does not match any probes"),
        ("pid$target:a.out:nosuch*:entry", "D_PDESC_ZERO", "does not match any probes"),
        ("pid1:a.out:main:entry", "D_PDESC_ZERO", "is traced, and no other"),
    ],
)
def test_mistakes_in_descriptions_have_dtraces_tags(description: str, tag: str, message: str) -> None:
    with pytest.raises(NoSuchProbe, match=re.escape(message)) as caught:
        traced(f"{description} {{ }}", str(build("hot8")), "1")
    assert caught.value.tag == tag


def test_an_instruction_named_by_address_fires_like_one_named_by_offset() -> None:
    program = build("hot8", "nopie")  # is where its file says
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    (start,) = [line.split()[0].lstrip("0") for line in symbols.splitlines() if line.endswith(" hot")]
    text = f"pid$target::-:{start}, pid$target:a.out:hot:entry {{ @[probefunc] = count(); }}"
    done = traced(text, program, "loop", "1")
    assert done.numbers()["-"] == done.numbers()["hot"] > 0
    assert (done.refused, done.restored) == ({}, True)


def offsets(program: str, function: str) -> dict[str, str]:
    """The instructions of a function by objdump, by their offset from its start."""
    words = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", program]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^ +([0-9a-f]+):\t(\S+)", listed, re.MULTILINE)
    return {f"{int(at, 16) - int(rows[0][0], 16):x}": what for at, what in rows}


def test_a_description_without_a_name_means_each_instruction() -> None:
    program = build("hot8")
    known = offsets(str(program), "hot")
    done = traced("pid$target:a.out:hot: { @[probename] = count(); }", program, "loop", "1")
    counts = done.numbers()
    assert counts.keys() == {"entry", "return", *known}
    assert counts["entry"] == counts["0"] == counts["return"] > 0
    assert sum(counts[at] for at, what in known.items() if what.startswith("ret")) == counts["return"]
    assert (done.refused, done.restored) == ({}, True)


def test_a_glob_selects_instructions_by_offset() -> None:
    program = build("hot8")
    known = {at for at in offsets(str(program), "hot") if at.startswith("1")}
    done = traced("pid$target:a.out:hot:1* { @[probename] = count(); }", program, "loop", "1")
    assert done.numbers().keys() == known


@pytest.mark.parametrize("provider", ["pid{}", "p*d{}"])
def test_a_process_named_only_in_a_description_is_traced(provider: str) -> None:
    with Loop([build("hot8")]) as loop:
        done = traced(f"{provider.format(loop.pid)}:a.out:hot:entry /++n == 10/ {{ trace(pid); exit(0); }}")
        assert (done.lines, done.restored) == ([str(loop.pid)], True)
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def test_a_number_after_a_provider_is_a_pid_only_if_the_process_has_the_provider() -> None:
    """If the process had been attached to, the reason would be another: that it has no such probes."""
    with Loop([build("hot8")]) as loop, pytest.raises(NoSuchProbe, match=r"does not match any probes$"):
        traced(f"nosuch{loop.pid}:::go {{ }}")


def test_tracing_gilk_itself_is_refused() -> None:
    """This runs in a process of its own, because the tested case once crashed it."""
    text = "from tests.providers.sessions import traced\ntraced('pid$pid:libc:malloc:entry { }')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "TargetError" in done.stderr and "is gilk itself" in done.stderr
