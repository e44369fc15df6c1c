# SPDX-License-Identifier: LGPL-2.1-or-later
"""Frames of code that a program has compiled at run time, with the names that it writes for perf."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import compile_text

# The generated function outer calls inner, also generated, which calls note, a compiled one.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
volatile long calls;
__attribute__((noinline)) void note(void) { calls++; }
static void emit(unsigned char *at, void *callee)
{
	memcpy(at, "\x55\x48\x89\xe5\x48\xb8", 6);  /* push %rbp; mov %rsp,%rbp; movabs */
	memcpy(at + 6, &callee, 8);
	memcpy(at + 14, "\xff\xd0\x5d\xc3", 4);      /* call *%rax; pop %rbp; ret */
}
int main(void)
{
	char name[64];
	unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
	map = fopen(name, "w");
	emit(code, (void *)note);
	emit(code + 64, code);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	fprintf(map, "%lx 12 JS:*inner app.js:1:2\n%lx 12 JS:^outer app.js:3:4\n", (long)code, (long)(code + 64));
	fclose(map);
	puts("ready");
	fflush(stdout);
	for (;;) {
		((void (*)(void))(code + 64))();
		usleep(500);
	}
}
"""
NAMES = ["generating`note", "JS:*inner app.js:1:2", "JS:^outer app.js:3:4", "generating`main"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[int]:
    program = compile_text(tmp_path, "generating", PROGRAM, "-O1")
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()
            Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def test_stacks_have_the_names_of_generated_code(running: int, gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    flame = tmp_path / "stacks.folded"
    words = ("run", "--json", "-i", "note:entry=stack", "-p", str(running), "--for", "2", "--stacks", flame)
    done = run_gilk(*words, env=gilk_on_path, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    [stack] = report["stacks"]
    assert stack["count"] == report["counts"]["generating:note:entry"] > 0
    frames = [frame.partition("+")[0].replace(f"perf-{running}.map`", "") for frame in stack["frames"]]
    assert frames[:4] == NAMES
    assert f"perf-{running}.map`JS:^outer app.js:3:4;perf-{running}.map`JS:*inner app.js:1:2;" in flame.read_text()


def test_ustack_has_names_and_offsets_of_generated_code(running: int, gilk_on_path: dict[str, str]) -> None:
    program = "pid$target::note:entry { @[ustack(4)] = count(); } pid$target::note:entry /++n == 100/ { exit(0); }"
    done = run_gilk("dtrace", "-q", "-n", program, "-p", str(running), env=gilk_on_path, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    # Behind a call: ten bytes, a move of ten bytes less four, and a call of two, of eighteen.
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    assert lines[:3] == [NAMES[0], f"perf-{running}.map`{NAMES[1]}+0x10", f"perf-{running}.map`{NAMES[2]}+0x10"]
    assert re.fullmatch(r"generating`main\+0x[0-9a-f]+", lines[3])


def test_the_report_says_why_names_of_generated_code_are_unknown(running: int, gilk_on_path: dict[str, str]) -> None:
    file = Path(f"/tmp/perf-{running}.map")
    file.unlink()
    file.symlink_to("/etc/passwd")
    words = ("run", "--json", "-i", "note:entry=stack", "-p", str(running), "--for", "1")
    done = run_gilk(*words, env=gilk_on_path, timeout=300)
    report = json.loads(done.stdout.splitlines()[-1])
    assert f"/tmp/{file.name} is not read: it is no regular file" in report["notes"]


SCRIPT = """
const fs = require('fs');
function innermost() { fs.accessSync('/'); return 1; }
function outermost(n) { let s = 0; for (let i = 0; i < n; i++) s += innermost(); return s; }
process.on('SIGTERM', () => process.exit(0));
function rounds() { outermost(100); setImmediate(rounds); }
for (let i = 0; i < 300; i++) outermost(100);
console.log('ready');
rounds();
"""


@pytest.mark.stress
def test_javascript_functions_of_node_have_names(gilk_on_path: dict[str, str], tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    (tmp_path / "app.js").write_text(SCRIPT)
    # Each function is compiled before its first call, and never again later, when it would be inlined.
    words = [node, "--always-sparkplug", "--no-opt", "--perf-basic-prof", "app.js"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as app:
        try:
            assert app.stdout is not None and app.stdout.readline() == "ready\n"
            point = "pid$target:libc:access:entry"
            clauses = f"{point} {{ @[ustack(20)] = count(); }} {point} /++n == 500/ {{ exit(0); }}"
            command = ["gilk", "dtrace", "-q", "-n", clauses, "-p", str(app.pid)]
            done = subprocess.run(command, env=gilk_on_path, capture_output=True, text=True, timeout=500)
            assert done.returncode == 0, done.stderr
            assert re.search(rf"perf-{app.pid}\.map`JS:.?outermost .*app\.js:4:19", done.stdout), done.stdout
        finally:
            app.kill()
            Path(f"/tmp/perf-{app.pid}.map").unlink(missing_ok=True)
