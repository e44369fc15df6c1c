# SPDX-License-Identifier: LGPL-2.1-or-later
"""`gilk dtrace --follow`: one D program for a process and all its descendants."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, run_gilk, wait_for
from tests.behaviour.test_run_follow import MAKEFILE, executed, tracer
from tests.programs.build import build, compile_text

HOT = "pid$target:a.out:hot:entry"


def dtrace(program: str, command: str, *words: str, cwd: Path | None = None, status: int = 0) -> list[str]:
    """The lines of the program's output and of the report; the latter begin with ``dtrace:``."""
    done = run_gilk("dtrace", "--follow", "-q", *words, "-n", program, "-c", command, cwd=cwd)
    assert done.returncode == status, done.stderr
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def of_shell(line: str) -> str:
    return shlex.join(["sh", "-c", line])


def test_the_programs_followed_in_a_build_are_those_that_strace_sees(tmp_path: Path) -> None:
    """Each program passes the beginning of its own code only once; this was seen, so it was instrumented before."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    program = (
        "pid$target:libc.so.6:__libc_start_main*:entry { @[execname] = count(); @all = count(); }"
        'BEGIN { begun++; } END { printa("@%s %@d\\n", @); printa("all %@d\\n", @all); printf("begun %d\\n", begun); }'
    )
    said = dtrace(program, "make -j2", cwd=tmp_path)
    counts = {name: int(count) for name, count in (line[1:].split() for line in said if line[0] == "@")}
    programs = executed(tmp_path, "make", "-j2")
    assert sum(counts.values()) == programs.total() == 10
    names = Counter({Path(path).name: count for path, count in programs.items()})
    assert sorted(counts.values()) == sorted(names.values())
    assert {name: counts[name] for name in ("make", "ls", "echo")} == {"make": 1, "ls": 3, "echo": 3}
    assert {f"all {programs.total()}", "begun 1"} <= set(said)
    assert f"dtrace: followed {programs.total()} programs, {programs.total()} with probes" in said


def test_bytes_written_are_counted_for_each_program_of_a_pipeline() -> None:
    """Each program of the pipeline passes the numbers on, and the last one counts them."""
    program = 'syscall::write:entry { @[execname] = sum(arg2); } END { printa("%s %@d\\n", @); }'
    said = dtrace(program, of_shell("seq 1000 | sort -n | cat | wc -l"))
    numbers = sum(len(f"{number}\n") for number in range(1, 1001))
    assert {f"seq {numbers}", f"sort {numbers}", f"cat {numbers}", "wc 5", "1000"} <= set(said)


PREFORK = """
import os
def serve(count):
    for _ in range(count):
        os.getppid()
for count in (10, 20, 30):
    if not os.fork():
        serve(count)
        os._exit(0)
    os.wait()  # one at a time: D adds to a global variable without a lock, as DTrace does
os.posix_spawn({sh!r}, ["sh", "-c", "true"], os.environ)
os.wait()
serve(5)
"""


@pytest.mark.stress
def test_the_children_of_a_prefork_server_are_followed(tmp_path: Path) -> None:
    """The processes share global variables, arrays and thread-local variables; ``pid`` and ``execname`` tell the
    processes apart."""
    script = tmp_path / "server.py"
    script.write_text(PREFORK.format(sh="/bin/sh"))
    program = """
        pid$target:libc.so.6:getppid:entry { all++; seen[pid]++; self->last = pid; @[execname, pid] = count(); }
        pid$target:libc.so.6:getppid:return /self->last != pid/ { wrong++; }
        pid$target:libc.so.6:getppid:return { @most = max(seen[pid]); returned++; }
        END { printa("%s %d %@d\\n", @); printa("most %@d\\n", @most); printf("all %d %d %d\\n", all, returned, wrong); }
    """
    said = dtrace(program, shlex.join([sys.executable, str(script)]))
    rows = [line.split() for line in said if len(line.split()) == 3]
    python = sorted(int(count) for name, _, count in rows if name != "sh")
    assert python == [5, 10, 20, 30] and len({pid for _, pid, _ in rows}) == len(rows)
    (shells,) = [int(count) for name, _, count in rows if name == "sh"]
    assert f"all {65 + shells} {65 + shells} 0" in said and "most 30" in said


@pytest.mark.parametrize(("name", "arguments", "hits", "programs"), [
    ("exec", ("5",), 500, 6),  # executes itself, the first time from another thread than the first
    pytest.param("vfork", ("5",), 15, 6, marks=pytest.mark.stress),  # children that share their parent's memory until they execute
    ("fork", ("5",), 550, 1),  # children that execute nothing
])  # fmt: skip
def test_processes_are_followed_however_they_begin(
    name: str, arguments: tuple[str, ...], hits: int, programs: int
) -> None:
    said = dtrace(f'{HOT} {{ @ = count(); n[pid]++; }} END {{ printa("%@d\\n", @); }}',
                  shlex.join([str(build(name)), *arguments]))  # fmt: skip
    assert str(hits) in said and any(f"followed {programs} program" in line for line in said), said


def test_exit_in_any_process_ends_the_session_for_all(tmp_path: Path) -> None:
    """A child counts to five. The command ends with the session; its descendants go on without probes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = compile_text(tmp_path, "child", CHILD, "-O1", "-w")
    (tmp_path / "script").write_text(
        f"echo $$ > pid; for i in 1 2 3 4 5 6 7 8 9; do {program}; done; read x < {fifo}; {program}; echo over\n"
    )
    words = ["-n", 'pid$target:child:tick:entry /++n == 5/ { printf("%s\\n", execname); exit(7); }']
    command = [sys.executable, "-m", "gilk", "dtrace", "--follow", "-q", *words, "-c", of_shell("sh script; true")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as client:
        assert client.stdout and client.stdout.readline() == b"child\n"
        assert client.wait() == 7
        shell = int((tmp_path / "pid").read_text())
        assert tracer(shell) == 0 and not differences(shell) and not leftovers(shell)
        fifo.write_text("go on\n")
        assert b"over\n" in client.stdout.read()


CHILD = """
__attribute__((noipa)) void tick(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop"); }
int main(void) { tick(); return 0; }
"""


def test_the_children_of_an_attached_process_are_followed(tmp_path: Path) -> None:
    """The children of a running shell are followed; afterwards the shell is what it was."""
    program = compile_text(tmp_path, "child", CHILD, "-O1", "-w")
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with shell:
        assert shell.stdin and shell.stdout
        text = 'BEGIN { printf("begun\\n"); } pid$target:child:tick:entry { @[execname] = count(); printf("tick\\n"); } END { printa("%s %@d\\n", @); }'
        words = [sys.executable, "-m", "gilk", "dtrace", "--follow", "-q", "-n", text, "-p", str(shell.pid)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as client:
            assert client.stdout and client.stdout.readline() == b"begun\n"
            for _ in range(3):
                shell.stdin.write(f"{program}; echo done\n".encode())
                shell.stdin.flush()
                assert shell.stdout.readline() == b"done\n" and client.stdout.readline() == b"tick\n"
            client.send_signal(signal.SIGINT)
            assert b"child 3\n" in client.stdout.read()
        assert client.returncode == 0
        assert tracer(shell.pid) == 0 and not differences(shell.pid) and not leftovers(shell.pid)
        shell.stdin.close()
        assert shell.wait() == 0


def test_all_processes_are_clean_when_the_client_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    kept = os.open(fifo, os.O_RDWR)
    line = f"echo $$; {build('hot8')} loop < {fifo} & echo $!; wait"
    words = [sys.executable, "-m", "gilk", "dtrace", "--follow", "-q", "-n", f"{HOT} {{ @[pid] = count(); }}"]
    client = subprocess.Popen([*words, "-c", of_shell(line)], stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT})
    with client:
        assert client.stdout
        said = [client.stdout.readline() for _ in range(3)]  # the program may be ready before the shell says so
        pids = [int(text) for text in said if text != b"ready\n"]
        try:
            assert len(pids) == 2
            assert leftovers(pids[1]) and differences(pids[1])
            client.send_signal(signal.SIGKILL)
            for pid in pids:
                assert wait_for(lambda pid=pid: not leftovers(pid) and not differences(pid) and not tracer(pid)), pid
        finally:
            for pid in pids:  # before the fifo is closed, at which they end by themselves
                os.kill(pid, signal.SIGKILL)
            os.close(kept)


@pytest.mark.stress
def test_addresses_are_named_by_the_symbols_of_their_program(tmp_path: Path) -> None:
    """One process runs three programs, one after the other; ``usym`` finds the functions of each."""
    first = compile_text(tmp_path, "first", CHILD, "-O1", "-w")
    source = CHILD.replace("tick", "tock").replace("return 0", f'return execl("{first}", "first", (char *)0)')
    second = compile_text(tmp_path, "second", source, "-O1", "-w")
    program = 'pid$target:first:tick:entry, pid$target:second:tock:entry { @[usym(arg5 * 0 + uregs[R_RIP])] = count(); } END { printa("%A %@d\\n", @); }'
    said = dtrace(program, of_shell(f"exec {second}"))
    assert {"first`tick 1", "second`tock 1"} <= set(said)


STACKED = """
__attribute__((noipa)) void tick(void) { __asm__ volatile("nop; nop; nop; nop; nop; nop"); }
__attribute__((noipa)) void %s(void) { tick(); __asm__ volatile(""); }
int main(void) { %s(); return 0; }
"""


def test_stacks_are_named_by_the_symbols_of_each_program(tmp_path: Path) -> None:
    """Both programs have no frame pointers, and unwind tables of their own; a running shell executes each."""
    flags = ("-O1", "-w", "-fomit-frame-pointer")
    red, blue = (compile_text(tmp_path, name, STACKED % (name, name), *flags) for name in ("red", "blue"))
    program = (
        "pid$target:red:tick:entry, pid$target:blue:tick:entry { @[execname, ustack(3), ucaller != 0] = count(); }"
    )
    said = dtrace(program, of_shell(f"{red}; {blue}; {red} & {blue} & wait"))
    rows = "\n".join(line.strip() for line in said)
    for name in ("red", "blue"):
        frames = rf"{name}`tick\n{name}`{name}\+0x\w+\n{name}`main\+0x\w+\n"
        counts = re.findall(rf"^{name}\n{frames}(.*)$", rows, re.MULTILINE)
        assert sum(int(count.split()[-1]) for count in counts) == 2, rows


def test_profile_samples_all_followed_processes() -> None:
    """Two processes run until each was seen five times, and a third waits for them."""
    program = """
        profile-97 /execname == "sh" && pid != $target/ { sh++; }
        profile-97 /execname == "dash"/ { dash++; }
        profile-97 /sh >= 5 && dash >= 5/ { exit(6); }
    """
    spin = '"while kill -0 $$ 2> /dev/null; do :; done"'
    said = dtrace(program, of_shell(f"sh -c {spin} & dash -c {spin} & wait"), status=6)
    assert said == ["dtrace: followed 3 programs, 0 with probes"]


def test_probes_are_found_in_programs_that_are_executed_later(tmp_path: Path) -> None:
    """The first program lacks the function, and the clause still compiles; its types are those of each program."""
    program = compile_text(tmp_path, "child", CHILD, "-O1", "-w")
    said = dtrace(
        'pid$target:child:tick:entry { printf("%s %d\\n", probefunc, pid != $target); }', of_shell(f"{program}; true")
    )
    assert "tick 1" in said and "dtrace: followed 2 programs, 1 with probes" in said


def test_descriptions_that_match_in_no_followed_program_are_reported() -> None:
    said = dtrace("pid$target:libnowhere:f:entry { @ = count(); }", of_shell("true; /bin/true"), status=1)
    assert any("no program that was followed has a probe" in line and "libnowhere" in line for line in said)
    dtrace("pid$target:libnowhere:f:entry { @ = count(); }", of_shell("true; /bin/true"), "-Z")
    said = dtrace("profile:::tick-never { @ = count(); }", "true", status=1)
    assert any("does not match any probes" in line for line in said)


@pytest.mark.parametrize("words", [
    ("-c", "true", "-n", "profile-97 { @[ustack()] = count(); }"),  # its tables are in the processes
    ("--on", "lab", "-c", "true", "-n", "BEGIN"),
    ("-n", "BEGIN { exit(0); }"),
])  # fmt: skip
def test_options_that_follow_does_not_support_are_refused(words: tuple[str, ...]) -> None:
    done = run_gilk("dtrace", "--follow", *words)
    assert done.returncode == 1 and "--follow" in done.stderr, done.stderr


def test_following_a_process_that_another_session_has_is_refused() -> None:
    with Loop([build("hot8")]) as loop:
        words = [
            sys.executable,
            "-m",
            "gilk",
            "dtrace",
            "-q",
            "-n",
            f'BEGIN {{ printf("in\\n"); }} {HOT} {{ @ = count(); }}',
        ]
        first = [*words, "-p", str(loop.pid)]
        with subprocess.Popen(first, stdout=subprocess.PIPE, env={**os.environ, **ENVIRONMENT}) as client:
            assert client.stdout and client.stdout.readline() == b"in\n"
            done = run_gilk("dtrace", "--follow", "-n", f"{HOT} {{ @ = count(); }}", "-p", str(loop.pid))
            client.send_signal(signal.SIGINT)
            client.stdout.read()
        assert done.returncode == 1 and "who follows has to be the first" in done.stderr


def test_without_follow_executed_programs_are_not_counted() -> None:
    """Negative control: the programs are executed, but not counted."""
    said = run_gilk(
        "dtrace", "-q", "-n", f'{HOT} {{ @ = count(); }} END {{ printa("%@d\\n", @); }}', "-c", f"{build('exec')} 5"
    )
    assert "500" not in said.stdout.split()


COUNTER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
extern void *__libc_malloc(size_t);
static unsigned long calls;
void *malloc(size_t size) { __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED); return __libc_malloc(size); }
__attribute__((noipa, destructor)) static void over(void)
{
	char line[128], name[20];
	int file = open(getenv("COUNTS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
	prctl(PR_GET_NAME, name);
	write(file, line, snprintf(line, sizeof line, "%s %d %lu\n", name, getpid(), calls));
	close(file);
}
"""
OBJECTS = "prog: a.o b.o c.o d.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n"


@pytest.mark.stress
def test_each_process_of_a_build_with_a_compiler_counts_for_itself(tmp_path: Path) -> None:
    """A library in each process counts its calls too, until its destructor runs; the two counts agree for each
    process."""
    library = compile_text(tmp_path, "counter.so", COUNTER, "-O1", "-w", "-shared", "-fPIC")
    (tmp_path / "Makefile").write_text(OBJECTS)
    for name, called in zip("abcd", "bcd", strict=False):
        (tmp_path / f"{name}.c").write_text(f"int {called}(void); int {name}(void) {{ return {called}(); }}")
    (tmp_path / "d.c").write_text("int d(void) { return 0; } int main(void) { return d(); }")
    environment = {"LD_PRELOAD": str(library), "COUNTS": str(tmp_path / "counts")}
    line = " ".join(["env", *(f"{name}={value}" for name, value in environment.items()), "make", "-j2"])
    program = """
        int over[int, string];
        pid$target:counter.so:malloc:entry /!over[pid, execname]/ { @all = count(); @[execname, pid] = count(); }
        pid$target:counter.so:over:entry { over[pid, execname] = 1; }
        END { printa("@%s %d %@d\\n", @); printa("all %@d\\n", @all); }
    """
    said = dtrace(program, line, cwd=tmp_path)
    counted = {line[1:] for line in said if line.startswith("@")}
    own = set((tmp_path / "counts").read_text().splitlines())
    assert own == counted and len(own) > 15, (own ^ counted, said)
    assert (tmp_path / "prog").is_file()
    assert f"all {sum(int(line.split()[-1]) for line in own)}" in said


def test_buffers_larger_than_memory_are_refused() -> None:
    done = run_gilk(
        "dtrace", "--follow", "-b", "1t", "-x", "bufresize=manual", "-n", "BEGIN { exit(0); }", "-c", "true"
    )
    assert done.returncode == 1 and "bufsize is more memory than there is" in done.stderr


@pytest.mark.skipif(subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, capture_output=True).returncode != 0,
                    reason="no PID namespace can be made")  # fmt: skip
def test_a_program_in_a_namespace_of_its_own_runs_on_and_is_named(tmp_path: Path) -> None:
    child = compile_text(tmp_path, "child", CHILD, "-O1", "-w")
    said = dtrace('pid$target:child:tick:entry { @ = count(); } END { printa("%@d\\n", @); }',
                  of_shell(f"unshare --pid --fork {child} && echo ran; {child}"))  # fmt: skip
    assert {"ran", "1"} <= set(said) and "dtrace: followed 4 programs, 1 with probes" in said, said
    assert any("not everything is seen in child: it is in a PID namespace" in line for line in said), said


PROGRAMS = """
#include <sys/wait.h>
#include <unistd.h>
%s
struct shape { %s } here;
int level = %d;
__attribute__((noipa)) void tick(struct shape *shape) { __asm__ volatile("" : : "r"(shape) : "memory"); }
int main(int count, char **words)
{
	char *const rest[] = {words[1], words[2], 0};
	here.red = level + 1;
	tick(&here);
	if (count > 1 && !vfork())
		execv(words[1], rest);
	while (wait(0) > 0)
		;
	return 0;
}
"""


def three_programs(tmp_path: Path, member: str) -> str:
    """The command of a program that executes a second one, which executes a third, which has none of their
    variables."""
    made = []
    for name, before, members, level in (("one", "", "int red;", 3), ("two", "int other[999];", member, 40)):
        flags = ("-O1", "-w", "-g")
        made.append(compile_text(tmp_path, name, PROGRAMS % (before, members, level), *flags))
    return shlex.join([*map(str, made), "/bin/true"])


@pytest.mark.stress
def test_symbols_and_types_are_looked_up_in_each_program(tmp_path: Path) -> None:
    """One variable lies at two addresses, one member at two offsets; a program without them is named."""
    program = """
        pid$target:a.out:tick:entry { @[execname, a.out`level, ((struct shape *)arg0)->red] = count(); }
        END { printa("%s %d %d %@d\\n", @); }
    """
    said = dtrace(program, three_programs(tmp_path, "long before; int red;"))
    assert {"one 3 4 1", "two 40 41 1"} <= set(said)
    assert any(line.startswith("dtrace: not everything is seen in true: ") and "level" in line for line in said), said


@pytest.mark.stress
def test_a_program_whose_types_have_other_sizes_is_refused(tmp_path: Path) -> None:
    program = """
        pid$target:a.out:tick:entry { kept = *(struct shape *)arg0; @[execname, kept.red] = count(); }
        END { printa("%s %d %@d\\n", @); }
    """
    said = dtrace(program, three_programs(tmp_path, "long before; int red;"))
    assert "one 4 1" in said and not any(line.startswith("two ") for line in said)
    why = "types that the D program uses are others here than in the first program"
    assert f"dtrace: not everything is seen in two: {why}" in said, said
