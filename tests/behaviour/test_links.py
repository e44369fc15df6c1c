# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program can also be named by the link by which it was executed: redis-server is a link to redis-check-rdb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.behaviour.harness import mortal, run_gilk
from tests.programs.build import compile_text

SOURCE = r"""
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((noipa)) void tick(void) { usleep(1000); }
int main(int count, char **words)
{
	char byte;
	if (count > 2)
		prctl(PR_SET_NAME, words[1]);
	write(1, "ready\n", 6);
	for (int i = 0; i < 100; i++)
		tick();
	return read(0, &byte, 1);
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return compile_text(tmp_path, "checker", SOURCE, "-O1", "-w")


def test_a_program_is_named_by_the_link_that_was_executed(program: Path, tmp_path: Path) -> None:
    link = tmp_path / "server"
    link.symlink_to(program)
    for image in ("server", "serv*", "checker", "a.out"):
        done = run_gilk("run", "--json", "-i", f"{image}:tick:entry=count", "--", link)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["counts"] == {"checker:tick:entry": 100}
    words = ["trace", "-o", tmp_path / "t.parquet", "--scope", "server:tick", "--json", "--", link]
    assert json.loads(run_gilk(*words).stdout.splitlines()[-1])["trace"]["calls"] == 100
    with mortal([link]) as loop:
        assert run_gilk("scan", f"pid:{loop.pid}", "server:tick").returncode == 0


def test_a_process_name_that_is_no_link_to_the_program_is_refused(program: Path, tmp_path: Path) -> None:
    """A process may set any name for itself."""
    (tmp_path / "other").write_bytes(program.read_bytes())
    for name in ("other", "libc.so.6", "..", "no-file"):
        with mortal([program, name]) as loop:
            done = run_gilk("run", "--json", "-i", f"{name}:tick:entry=count", "-p", str(loop.pid), "--for", "10ms")
            assert json.loads(done.stdout)["error"]["slug"] in ("no-such-image", "no-such-function")
