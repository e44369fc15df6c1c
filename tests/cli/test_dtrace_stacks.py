# SPDX-License-Identifier: LGPL-2.1-or-later
"""ustack() of programs without frame pointers, as ``gilk dtrace`` prints it. tests/native/d/test_d_stacks.py tests
it at every instruction."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import build

Dtrace = Callable[..., str]
NOTE = "pid$target:a.out:note"


@pytest.fixture
def dtrace(gilk_on_path: dict[str, str], tmp_path: Path) -> Dtrace:
    def run(*words: object) -> str:
        done = run_gilk("dtrace", "-q", *map(str, words), cwd=tmp_path, env=gilk_on_path, timeout=250)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return run


def stacks(output: str) -> dict[int, list[str]]:
    """The stacks by their kind, which is printed before each: names of functions, without offsets."""
    found: dict[int, list[str]] = {}
    kind = 0
    for line in output.splitlines():
        if line.startswith("kind "):
            kind = int(line.split()[1])
            found[kind] = []
        elif line.startswith(" " * 14) and kind:
            found[kind].append(re.sub(r"^.*`|\+0x[0-9a-f]+$", "", line.strip()))
    return found


#: The frames up to main, or to the beginning of a thread; those above are the C library's.
EXPECTED = {
    1: ["note", *["recursive"] * 4, "main"],
    2: ["note", "on_the_stack", "main"],
    3: ["note", "handler", "__restore_rt", "__pthread_kill_implementation", "raise", "signalled", "main"],
    4: ["note", "handler", "__restore_rt", "__pthread_kill_implementation", "raise", "signalled", "main"],
    6: ["note", "tail", "main"],
    7: ["note", "thread", "start_thread"],
    8: ["note", "does_not_return", "main"],
}


@pytest.mark.parametrize("variant", ["nofp", pytest.param("static+nofp", marks=pytest.mark.stress)])
def test_ustack_in_code_of_all_kinds(dtrace: Dtrace, variant: str) -> None:
    """The stacks are taken at entries, at returns, and in the middle of the function; callers and depths agree with
    them."""
    program = f"""
        {NOTE}:entry {{ self->kind = arg0; self->depth = ustackdepth; self->caller = ucaller; }}
        {NOTE}:entry, {NOTE}:return {{ @depth[self->kind] = min(ustackdepth); printf("kind %d", self->kind);
            ustack(); }}
        {NOTE}:return /self->depth != ustackdepth || self->caller != ucaller/ {{ printf("differs %d\\n", self->kind); }}
        END {{ printa("depth %d %@d\\n", @depth); }}"""
    output = dtrace("-n", program, "-c", shlex.quote(str(build("stacks", variant))))
    found, depths = stacks(output), dict(re.findall(r"^depth (\d+) (\d+)$", output, re.M))
    assert "differs" not in output
    for kind, expected in EXPECTED.items():
        assert [name.partition(".")[0] for name in found[kind][: len(expected)]] == expected, kind
        assert len(found[kind]) == int(depths[str(kind)])
        assert found[kind][-1] in ("_start", "clone3", "__clone3", "clone", "__clone"), kind
    assert found[5][:2] == ["note", "by_value"] and "main" in found[5]
    assert all(stack.count("main") == 1 for kind, stack in found.items() if kind != 7)


def test_jstack_is_ustack_with_frames_of_its_own(dtrace: Dtrace) -> None:
    program = f"""
        #pragma D option jstackframes=3
        {NOTE}:entry /arg0 == 1/ {{ printf("kind 1"); jstack(); printf("kind 2"); jstack(2, 100);
            printf("kind 3"); ustack(); exit(0); }}"""
    found = stacks(dtrace("-n", program, "-c", shlex.quote(str(build("stacks", "nofp")))))
    assert found == {1: EXPECTED[1][:3], 2: EXPECTED[1][:2], 3: found[3]} and len(found[3]) > 5


def test_stacks_through_a_library_that_was_opened_later(dtrace: Dtrace) -> None:
    """The first stacks end in the library; later ones go through it, and show its name."""
    program = f'{NOTE}:entry /arg0 == 9 && ustackdepth > 4/ {{ printf("kind %d", arg0); ustack(); exit(0); }}'
    with subprocess.Popen([build("stacks", "nofp"), "late"]) as process:
        try:
            (stack,) = stacks(dtrace("-n", program, "-p", process.pid)).values()
        finally:
            process.kill()
    assert stack[:4] == ["note", "at_a_frame", "_Unwind_Backtrace", "late"]
    assert stack[-1] == "_start"


def test_stacks_as_keys_and_in_formats_have_names_of_functions(dtrace: Dtrace) -> None:
    """Addresses in one function share a row; names are found though the process has ended by then."""
    program = f"""#pragma D option ustackframes=2
        #pragma D option maxframes=2
        {NOTE}:entry /arg0 == 1 || arg0 == 2/ {{
            @stack["k", ustack()] = sum(arg0); @two[ustack(2, 100)] = count(); @name[usym(ucaller)] = avg(arg0);
            @module[umod(ucaller)] = max(arg0); @address[uaddr(ucaller)] = count(); @deep = max(ustackdepth); }}
        END {{ printa("depth %@d\\n", @deep); }}
        END {{ printa("%s%-3k=%@d\\n", @stack); printa(@name); printa(@module); printa(@two); }}"""
    output = dtrace("-n", program, "-c", shlex.quote(str(build("stacks", "nofp"))))
    assert "k\n   stacks`note\n   stacks`recursive+0x" in output
    lines = output.splitlines()
    assert "depth 2" in lines  # a stack has as many frames as maxframes says
    assert lines.count(f"  {'stacks`on_the_stack':<50} {2:16}") == 1
    assert lines.count(f"  {'stacks`recursive':<50} {1:16}") == 1
    assert lines.count(f"  {'stacks':<50} {2:16}") == 1
    assert lines.count(" " * 14 + "stacks`note") == 2
    assert len([line for line in lines if line.startswith("  stacks`on_the_stack+0x")]) == 1


_REAL = (
    "bash -c 'f() { [ $1 = 0 ] || f $(($1 - 1)); }; f 9'",
    *(
        pytest.param(command, marks=pytest.mark.stress)
        for command in (
            "python3 -c \"import re; [re.match('(a+)+b', 'a' * 12) for _ in range(3)]\"",
            "perl -e 'my %h; $h{$_} = [1 .. 10] for 1 .. 1000'",
            "git --version",
        )
    ),
)


@pytest.mark.parametrize("command", _REAL)
def test_stacks_of_stock_programs_reach_their_start(dtrace: Dtrace, command: str) -> None:
    """Every stack goes from malloc to where the program begins."""
    program = "pid$target:libc.so.6:malloc:entry { @[ustack()] = quantize(arg0); } END { trunc(@, 5); }"
    output = dtrace("-n", program, "-c", command)
    innermost = [line for line in output.splitlines() if line.endswith("`malloc")]
    outermost = [line for line in output.splitlines() if re.search(r"`__libc_start_main\+0x\w+$", line)]
    assert len(innermost) == len(outermost) == 5


def test_stacks_of_samples_of_running_threads(dtrace: Dtrace) -> None:
    """These clauses run in gilk, which reads the stack of the process."""
    program = "profile-997 { @[ustack()] = count(); @n = count(); } tick-10ms /++n > 20/ { exit(0); }"
    output = dtrace("-n", program, "-c", "bash -c 'for ((i = 0; i < 300000; i++)); do :; done'")
    assert re.search(r"bash`main\+0x\w+\n +libc", output)


def test_frames_in_unnamed_code_are_shown_as_addresses(dtrace: Dtrace) -> None:
    """With -x noresolve, frames show the file and the offset in its mappings. The first frame is the entry itself."""
    program = build("stacks", "nofp")
    clause = f"{NOTE}:entry {{ ustack(2); uaddr(ucaller); usym(ucaller); exit(0); }}"
    output = dtrace("-x", "noresolve", "-n", clause, "-c", shlex.quote(str(program)))
    rows = [line.split() for line in told("nm", program).splitlines()]
    (entry,) = [int(row[0], 16) for row in rows if row[-1] == "note"]
    loads = re.findall(r"^\s*LOAD\s+\S+ (0x\S+) \S+ \S+ (0x\S+) R E", told("readelf", "-lW", program), re.M)
    ((start, size),) = [(int(at, 16), int(size, 16)) for at, size in loads]
    frames = [line.strip() for line in output.splitlines() if line.strip()]
    assert frames[0] == f"{program.name}:{entry - (start & -4096):#x}"
    assert re.fullmatch(rf"{re.escape(program.name)}:0x[0-9a-f]+", frames[1])
    assert int(frames[1].partition(":")[2], 16) < size
    assert " ".join(frames[2:]).split() == [frames[1], frames[1]]


def told(*words: object) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout
