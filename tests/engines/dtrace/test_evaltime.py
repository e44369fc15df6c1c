# SPDX-License-Identifier: LGPL-2.1-or-later
"""The place of a program of -c when probes go in, which shows in the calls that they see."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gilk.engines.dtrace.asked import Asked, let_go, prepare
from gilk.errors import TargetError
from gilk.targets.launch import Until
from gilk.targets.startup import start
from tests.providers.sessions import traced
from tests.seldom import seldom
from tests.targets.test_files import is_open

LIBRARY = """\
#include <pthread.h>
void from_library(void); void from_program(void); void from_main(void); void from_thread(void);
__attribute__((noinline)) void from_library(void) { __asm__ volatile("nop"); }
__attribute__((noinline)) void from_program(void) { __asm__ volatile("nop; nop"); }
__attribute__((noinline)) void from_main(void) { __asm__ volatile("nop; nop; nop"); }
__attribute__((noinline)) void from_thread(void) { __asm__ volatile("nop; nop; nop; nop"); }
static volatile int ends;
static pthread_t thread;
static void *runs(void *none) { while (!ends) from_thread(); return none; }
static __attribute__((constructor)) void begin(void)
{
	from_library();
	pthread_create(&thread, 0, runs, 0);
}
static __attribute__((destructor)) void end(void) { ends = 1; pthread_join(thread, 0); }
"""
PROGRAM = """\
void from_program(void); void from_main(void);
static __attribute__((constructor)) void begin(void) { from_program(); }
int main(void) { for (int i = 0; i < 3; i++) from_main(); return 0; }
"""
FORKS = """\
#include <sys/wait.h>
#include <unistd.h>
static int child, status;
static __attribute__((constructor)) void begin(void) { child = fork(); }
int main(void) { return child ? (wait(&status), WEXITSTATUS(status)) : 7; }
"""
COUNTS = """
pid$target::from_library:entry, pid$target::from_program:entry, pid$target::from_main:entry { @[probefunc] = count(); }
"""
FLAGS = [
    ("-O1",),
    ("-O1", "-static"),
    pytest.param(("-O1", "-no-pie", "-fno-pie"), marks=pytest.mark.stress),
    pytest.param(("-O1", "-static-pie", "-fPIE"), marks=pytest.mark.stress),
]


def made(place: Path, *flags: str) -> Path:
    """Build the program and its library; in a static program the library is linked in."""
    (place / "library.c").write_text(LIBRARY)
    (place / "program.c").write_text(PROGRAM)
    common = ["gcc", "-Wall", "-pthread", "-g0"]
    if any("static" in flag for flag in flags):
        rest: list[str] = ["library.c"]
    else:
        subprocess.run([*common, "-O1", "-shared", "-fPIC", "library.c", "-o", "libother.so"], cwd=place, check=True)
        rest = ["-L.", "-lother", f"-Wl,-rpath,{place}"]
    subprocess.run([*common, *flags, "program.c", *rest, "-o", "program"], cwd=place, check=True)
    return place / "program"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("preinit", {"from_library": 1, "from_program": 1, "from_main": 3}),
        pytest.param("postinit", {"from_main": 3}, marks=pytest.mark.stress),
        ("main", {"from_main": 3}),
    ],
)
def test_evaltime_decides_which_calls_are_seen(tmp_path: Path, value: str, expected: dict[str, int]) -> None:
    done = traced(f"#pragma D option evaltime={value}\n{COUNTS}", made(tmp_path, "-O1"))
    assert (done.numbers(), done.refused, done.errors) == (expected, {}, "")


def test_with_evaltime_exec_probes_see_the_dynamic_linker(tmp_path: Path) -> None:
    """A library that the program opens is seen, and has its probes before its constructors run, as do the linked
    ones."""
    opens = 'syscall::openat:entry { self->it = strstr(copyinstr(arg1), "libother") != NULL; }'
    opens += 'syscall::openat:return /self->it && !errno/ { @["opened"] = count(); }'
    program = f"#pragma D option evaltime=exec\n#pragma D option zdefs\n{COUNTS}{opens}"
    done = traced(program, made(tmp_path, "-O1"))
    in_place = traced(program.replace("exec", "preinit"), tmp_path / "program").numbers()
    assert in_place["from_main"] == 3
    assert done.numbers() == {"opened": 1, **in_place}


@pytest.mark.parametrize("stripped", seldom([True, False], 1), ids=["stripped", "named"])
@pytest.mark.parametrize("flags", FLAGS, ids="".join)
def test_with_evaltime_main_the_program_is_stopped_at_main(
    tmp_path: Path, flags: tuple[str, ...], stripped: bool
) -> None:
    """nm tells where main is; strip(1) moves nothing."""
    program = made(tmp_path, *flags)
    rows = [line.split() for line in run("nm", str(program)).splitlines()]
    (main,) = [int(row[0], 16) for row in rows if row[-1] == "main"]
    if stripped:
        run("strip", str(program))
    with start([str(program)], until=Until.MAIN) as process:
        (loaded,) = [each for each in process.loaded() if each.main]
        where = Path(f"/proc/{process.pid}/syscall").read_text().split()[-1]
        assert int(where, 16) == main + loaded.bias
        process.release()
        end = process.wait(block=True)
    assert end is not None and end.code == 0


def run(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_threads_that_constructors_began_are_stopped_too(tmp_path: Path) -> None:
    """The threads go on with the program."""
    program = '#pragma D option evaltime=main\npid$target::from_thread:entry { @["calls"] = count(); }'
    done = traced(f'{program} pid$target::from_main:return {{ @["returns"] = count(); }}', made(tmp_path, "-O1"))
    assert done.numbers()["returns"] == 3 and done.errors == ""


def test_evaltime_main_without_a_main_function_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.s").write_text(".globl _start\n_start: mov $60, %eax\n xor %edi, %edi\n syscall\n")
    subprocess.run(["gcc", "-nostdlib", "-static", "-s", "bare.s", "-o", "bare"], cwd=tmp_path, check=True)
    with pytest.raises(TargetError) as caught:
        start([str(tmp_path / "bare")], until=Until.MAIN)
    assert caught.value.slug == "no-main"
    assert not is_open(tmp_path / "bare")
    with start([str(tmp_path / "bare")], until=Until.LINKED) as process:
        process.release()
        assert process.wait(block=True) is not None


def test_a_program_that_ends_before_main_is_reported(tmp_path: Path) -> None:
    ends = "static __attribute__((constructor)) void end(void) { _Exit(3); }"
    (tmp_path / "early.c").write_text(f"#include <stdlib.h>\n{ends}\nint main(void) {{ return 0; }}\n")
    subprocess.run(["gcc", "early.c", "-o", "early"], cwd=tmp_path, check=True)
    with pytest.raises(TargetError) as caught:
        start([str(tmp_path / "early")], until=Until.MAIN)
    assert caught.value.slug == "cannot-launch"


def test_unknown_values_of_evaltime_are_refused() -> None:
    asked = Asked((("n", "#pragma D option evaltime=late\nBEGIN { exit(0); }"),), command=("true",))
    consumer = prepare(asked)
    try:
        with pytest.raises(Exception, match="failed to set option 'evaltime' to 'late': Invalid value"):
            consumer.compile()
    finally:
        let_go(consumer)


def test_a_child_that_a_constructor_forks_goes_on_to_main(tmp_path: Path) -> None:
    """It has inherited the breakpoint at main()."""
    (tmp_path / "forks.c").write_text(FORKS)
    subprocess.run(["gcc", "-O1", "forks.c", "-o", "forks"], cwd=tmp_path, check=True)
    with start([str(tmp_path / "forks")], until=Until.MAIN) as process:
        process.release()
        end = process.wait(block=True)
    assert end is not None and end.code == 7
