# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program makes gilk's memory inaccessible: its code is restored all the same, by the keeper or by `gilk restore`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.errors import TargetError
from tests.behaviour.harness import differences, leftovers
from tests.programs.build import compile_text
from tests.targets.test_restore import CLIENT, session_in

#: For each line, it makes memory of gilk's inaccessible, of a kind that the line begins with, or unmaps it ("unmap
#: KIND"), and says so.
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
__attribute__((noinline)) int work(int x) { __asm__ volatile(""); return x + 1; }
int main(void)
{
    char line[512];
    unsigned long low, high;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char kind[32];
        int unmap = !strncmp(line, "unmap ", 6);
        snprintf(kind, sizeof kind, "memfd:gilk-%.4s", line + 6 * unmap);
        FILE *maps = fopen("/proc/self/maps", "r");
        while (maps && fgets(line, sizeof line, maps))
            if (strstr(line, kind) && sscanf(line, "%lx-%lx", &low, &high) == 2)
                unmap ? munmap((void *)low, high - low) : mprotect((void *)low, high - low, PROT_NONE);
        puts("done");
        fflush(stdout);
    }
    return work(-1);
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [compile_text(tmp_path, "hides", SOURCE, "-O2")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def hide(program: subprocess.Popen[str], what: str = "data") -> None:
    assert program.stdin and program.stdout
    program.stdin.write(f"{what}\n")
    assert program.stdout.readline() == "done\n"


def ends(program: subprocess.Popen[str]) -> None:
    assert program.stdin
    program.stdin.close()
    assert program.wait() == 0


@pytest.mark.parametrize("what", ["data", "code"])
def test_code_is_restored_though_gilks_memory_is_inaccessible(program: subprocess.Popen[str], what: str) -> None:
    with gilk.attach(program.pid) as target, target.session() as session:
        session.insert("hides:work:entry", "count")
        hide(program, what)
    assert session.restored is True
    assert ["has made gilk's memory inaccessible" in note for note in session.notes] == [True]
    assert (differences(program.pid), leftovers(program.pid)) == ([], [])
    ends(program)


@pytest.mark.parametrize("what", ["data", "code"])
def test_code_is_restored_though_gilks_memory_is_unmapped(program: subprocess.Popen[str], what: str) -> None:
    with gilk.attach(program.pid) as target, target.session() as session:
        session.insert("hides:work:entry", "count")
        hide(program, f"unmap {what}")
        with pytest.raises(TargetError) as refused:
            session.insert("hides:main:blocks", "count")
        assert refused.value.slug == "memory-taken-away"
    assert session.restored is True
    assert [f"has unmapped {what} of gilk's" in note for note in session.notes] == [True]
    assert (differences(program.pid), leftovers(program.pid)) == ([], [])
    ends(program)


def test_an_abandoned_process_is_restored_though_gilks_data_is_inaccessible(program: subprocess.Popen[str]) -> None:
    with session_in(program.pid, CLIENT.replace("hot:blocks", "hides:work:blocks")) as keeper:
        hide(program)
        os.kill(keeper, signal.SIGKILL)
    assert differences(program.pid)
    assert gilk.restore(program.pid).bytes["hides"]
    assert differences(program.pid) == []
    ends(program)
