# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace`` as a user runs it: options, output and exit status. tests/lang/d has the meaning of programs."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.cli.conftest import Dtrace
from tests.programs.build import build

HOT = "pid$target:a.out:hot"
TEXT = "pid$target:a.out:text_hash"


def hot8_loop() -> str:
    """The command of a program that calls hot() for a second."""
    return shlex.join([str(build("hot8")), "loop", "1"])


def test_a_program_runs_without_a_process(dtrace: Dtrace) -> None:
    done = dtrace("-n", 'BEGIN { printf("%d %s", 1 + 2, probename); exit(7); }')
    assert done.returncode == 7
    assert done.stderr == "dtrace: description 'BEGIN ' matched 1 probe\n"
    assert done.stdout == (
        "CPU     ID                    FUNCTION:NAME\n  0      1                           :BEGIN 3 BEGIN\n\n"
    )


#: Only an editor needs these.
WRITING = (
    "gilk.lang.d.writing", "gilk.engines.dtrace.completing", "gilk.engines.dtrace.checking",
    "gilk.engines.dtrace.previewing", "gilk.targets.looking",
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ((), ("gilk.splice", "gilk.analysis", "gilk.image.elf", "gilk.targets.process", "pyarrow", "rich", *WRITING)),
        (("-c", "true"), ("pyarrow", "rich", "gilk.trace.samples", *WRITING)),
    ],
    ids=["without a process", "with one"],
)
def test_a_program_imports_only_modules_that_it_needs(
    gilk_on_path: dict[str, str], words: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    text = "BEGIN { exit(4); }" + " pid$target:libc.so.6:malloc:entry { @ = count(); }" * bool(words)
    code = (
        f"import sys\nfrom gilk.cli.main import main\nstatus = main(['dtrace', '-qn', {text!r}, *{words!r}])\n"
        f"print('heavy:', [name for name in {heavy!r} if name in sys.modules])\nsys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=gilk_on_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (4, "")
    assert done.stdout.endswith("heavy: []\n")


@pytest.mark.parametrize("mode", ["-l", "-e", "-h", "-G"])
def test_modes_about_one_process_are_refused_for_two(dtrace: Dtrace, mode: str) -> None:
    done = dtrace("-n", "BEGIN { }", mode, "-p", 1, "-p", 2)
    assert (done.returncode, done.stdout) != (0, "") and "give one -p" in done.stderr


def test_output_in_the_form_of_dtraces_test_suite(dtrace: Dtrace) -> None:
    done = dtrace("-n", "BEGIN { trace(1); exit(0); }", _DTRACE_TESTING="1")
    assert done.stdout == f"{'FUNCTION:NAME':>32}\n{':BEGIN':>32}           1\n\n"


def test_no_call_is_missed_or_counted_twice(dtrace: Dtrace) -> None:
    """Eight threads run on all processors; the program itself prints the number of its calls."""
    program = f"""
        {HOT}:entry {{ @calls = count(); @by[tid % 3, arg0 & 1] = count(); self->in = 1; }}
        {HOT}:return /self->in/ {{ @returns = count(); self->in = 0; }}
        pid$target:a.out:hot_asm:entry {{ @s = sum(1); @q = quantize(arg0); @calls_asm = count(); }}
        END {{ printa("calls %@d\\n", @calls); printa("returns %@d\\n", @returns); printa("asm %@d\\n", @calls_asm);
               printa("sum %@d\\n", @s); printa("part %@d\\n", @by); trunc(@q); }}"""
    done = dtrace("-q", "-c", hot8_loop(), "-n", program)
    assert (done.returncode, done.stderr) == (0, "")
    numbers = {name: list(map(int, re.findall(rf"^{name} (\d+)$", done.stdout, re.M))) for name in
               ("calls", "returns", "asm", "sum", "part", "calls hot", "calls hot_asm")}  # fmt: skip
    assert numbers["calls hot"][0] > 1000
    assert numbers["calls"] == numbers["returns"] == numbers["calls hot"] == [sum(numbers["part"])]
    assert numbers["asm"] == numbers["sum"] == numbers["calls hot_asm"]


def test_counts_of_each_processor_add_up(dtrace: Dtrace) -> None:
    done = dtrace("-q", "-x", "aggpercpu", "-c", hot8_loop(), "-n", f"{HOT}:entry {{ @ = count(); }}")
    calls = int(re.findall(r"^calls hot (\d+)$", done.stdout, re.M)[0])
    total, *each = [int(row.split()[-1]) for row in re.findall(r"^(?:    \[CPU \d+\])? +\d+$", done.stdout, re.M)]
    assert (done.returncode, done.stderr) == (0, "")
    assert total == calls == sum(each)
    assert len(each) == os.cpu_count()


def test_a_mistake_in_a_library_is_told_with_its_place(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "wrong.d").write_text("inline int one = 1;\ninline int two = nowhere;\n")
    done = dtrace("-L", str(tmp_path), "-n", "BEGIN")
    said = f'dtrace: invalid probe specifier BEGIN: "{tmp_path}/wrong.d", line 2: failed to resolve nowhere'
    assert done.returncode == 1 and done.stderr.startswith(said)


def test_probes_fire_on_the_processor_of_the_option_only(dtrace: Dtrace) -> None:
    """taskset(1) goes to one processor, and executes a program there."""
    first, *_, last = sorted(os.sched_getaffinity(0)) * 2
    program = 'syscall::execve:entry { n++; } END { printf("calls %d\\n", n); }'
    for cpu in {first, last}:
        done = dtrace("-q", "-x", f"cpu={cpu}", "-c", f"taskset -c {last} true", "-n", program)
        assert done.returncode == 0 and ("calls 0" in done.stdout) == (cpu != last), done.stdout


INTERRUPTED = """
import os, sys
from gilk.engines.dtrace.consumer import Consumer
def interrupted(self):
    os.kill(os.getpid(), int(os.environ["NUMBER"]))
    os._exit(99)  # nothing has ended it
Consumer.start = interrupted
from gilk.cli.main import run
sys.exit(run())
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_planning_ends_dtrace_at_once(gilk_on_path: dict[str, str], number: int, status: int) -> None:
    """Plans of hundreds of thousands of probes take minutes, and nothing is traced yet that could be reported."""
    with Loop([build("hot8")]) as loop:
        words = ["dtrace", "-n", f"{HOT}:entry {{ @ = count(); }}", "-p", str(loop.pid)]
        environment = {**gilk_on_path, "NUMBER": str(int(number))}
        command = [sys.executable, "-c", INTERRUPTED, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (status, "")
        assert wait_for(lambda: not leftovers(loop.pid)) and not differences(loop.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_is_left_as_it_was(gilk_on_path: dict[str, str], number: signal.Signals) -> None:
    once = f'int n; {TEXT}:entry /!n/ {{ n = 1; printf("hit\\n"); }}'
    program = once + f' {TEXT}:entry {{ @ = count(); }} END {{ printf("end"); }}'
    with Loop([build("work")]) as loop:
        words = ["gilk", "dtrace", "-q", "-x", "switchrate=20ms", "-p", str(loop.pid), "-n", program]
        with subprocess.Popen(
            words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout and run.stdout.readline() == "hit\n"
            assert differences(loop.pid)
            run.send_signal(number)
            out, err = run.communicate(timeout=250)
        assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))
        if number != signal.SIGKILL:
            assert (run.returncode, err) == (0, "")
            assert re.fullmatch(r"end\n\s+\d+\n", out)


def test_reading_unmapped_memory_is_a_fault_of_the_clause_and_does_not_harm_the_process(dtrace: Dtrace) -> None:
    program = f"""
        {TEXT}:entry /!seen/ {{ seen = 1; printf("%s", copyinstr(8)); printf("not reached"); }}
        {TEXT}:entry {{ @[copyinstr(arg0) != ""] = count(); hits = 1; }} ERROR {{ printf("fault %d", arg4); told = 1; }}
        tick-20ms /told && hits/ {{ exit(0); }}"""
    with Loop([build("work")]) as loop:
        done = dtrace("-p", loop.pid, "-q", "-x", "switchrate=20ms", "-n", "int seen, hits, told;" + program)
        assert done.returncode == 0
        assert re.search(
            r"^dtrace: error in dt_clause_0 for probe ID \d+ \(pid\d+:work:text_hash:entry\): invalid address",
            done.stderr,
        )
        assert done.stdout.startswith("fault 1\n")
        assert int(done.stdout.split()[-1]) > 0
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def test_a_script_with_arguments(dtrace: Dtrace, tmp_path: Path) -> None:
    script = tmp_path / "words.d"
    script.write_text(
        '#!/usr/bin/env -S gilk-dtrace -s\n#pragma D option quiet\nBEGIN { printf("%s %d\\n", $$1, $2); exit(0); }\n'
    )
    done = dtrace("-s", script, "word", "12")
    assert (done.returncode, done.stdout, done.stderr) == (0, "word 12\n\n", "")
    interpreter = [sys.executable, "-c", "import sys; from gilk.cli.dtrace import main; sys.exit(main())"]
    direct = subprocess.run([*interpreter, "-s", script, "word", "13"], capture_output=True, text=True, check=True)
    assert direct.stdout == "word 13\n\n"


def test_options_for_partial_descriptions_and_probe_numbers(dtrace: Dtrace) -> None:
    """-P, -m and -f name less than a whole probe, and -i gives its number; each may have a program."""
    assert dtrace("-q", "-P", 'dtrace /probename == "BEGIN"/ { printf("b"); exit(0); }').stdout == "b\n"
    assert dtrace("-q", "-i", '1 { printf("one"); exit(0); }').stdout == "one\n"
    assert [line.split()[-1] for line in dtrace("-l", "-i", "2").stdout.splitlines()] == ["NAME", "END"]
    assert "does not match any probes: only dtrace's own probes have numbers" in dtrace("-i", "4711").stderr


def test_missing_arguments_are_an_error_or_a_default(dtrace: Dtrace) -> None:
    text = 'BEGIN { printf("%d%s", $1, $$2); exit(0); }'
    assert dtrace("-q", "-n", "#pragma D option defaultargs\n" + text).stdout == "0\n"
    assert dtrace("-q", "-n", text).returncode == 1


def test_arguments_may_be_used_by_any_of_several_programs(dtrace: Dtrace) -> None:
    programs = ["-q", "-n", "BEGIN { exit(0); }", "-n", "END { trace($1); }"]
    assert dtrace(*programs, "12").stdout == "12\n"
    done = dtrace(*programs, "12", "13")
    assert (done.returncode, "extraneous argument '13' ($2 is not referenced)" in done.stderr) == (1, True)


def test_a_launched_command_is_killed_when_dtrace_exits(dtrace: Dtrace) -> None:
    done = dtrace("-q", "-n", 'BEGIN { printf("%d", $target); exit(3); }', "-c", "sleep 86400")
    assert done.returncode == 3, done.stderr
    status = Path(f"/proc/{done.stdout.strip()}/status")
    # A process that nobody has waited for is dead all the same.
    assert wait_for(lambda: not status.exists() or "State:\tZ" in status.read_text())


def test_progenyof_knows_the_ancestors_of_the_process_and_of_dtrace(dtrace: Dtrace) -> None:
    asked = "progenyof($pid), progenyof($ppid), progenyof(1), progenyof($target), progenyof($pid + 1000000)"
    text = f'BEGIN, syscall::*nanosleep:entry {{ printf("%d%d%d%d%d ", {asked}); }}'
    done = dtrace("-q", "-n", text, "-c", "sleep 0.01")
    assert (done.returncode, done.stdout.split()) == (0, ["11100", "11110"]), done.stderr


def test_exit_is_not_lost_when_the_buffer_is_full(dtrace: Dtrace) -> None:
    program = 'tick-1ms { printf("%d\\n", i++); } tick-300ms { exit(4); } dtrace:::BEGIN { trace(i); }'
    done = dtrace("-q", "-b", "4k", "-x", "switchrate=60s", "-n", "int i;" + program)
    assert done.returncode == 4
    assert re.search(r"^dtrace: \d+ drops on CPU 0$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "BEGIN { nothing; }"], "line 1: failed to resolve nothing: Unknown variable name"),
        (["-xerrtags", "-n", "BEGIN { nothing; }"], "[D_IDENT_UNDEF] line 1: "),
        (["-xempty", "-s", "/dev/null"], "dtrace: no probes matched"),
        (["-n", "nosuch:::probe"], "probe description nosuch:::probe does not match any probes"),
        (["-s", "/nowhere.d"], "dtrace: failed to open /nowhere.d: No such file or directory"),
        (["-x", "foo", "-n", "BEGIN"], "dtrace: failed to set -x foo: Invalid option name"),
        (["-p", "1999999999", "-n", "BEGIN"], "dtrace: No such process\n"),
        (["-n", 'BEGIN { system("true"); }'], "Destructive actions not allowed"),
        (["-n", "BEGIN { pcap((void *)1, 2); }"], "pcap( ) is about the kernel, where no clause runs"),
        (["-c", "sh 'x", "-n", "BEGIN"], "No closing quotation"),
        (["-c", "sh", "-p", "1", "-n", "BEGIN"], "-p and -c exclude each other"),
        (["-p", "1999999998", "-p", "1999999999", "-n", "BEGIN"], "dtrace: there is no process 1999999998"),
        (["-c", "true", "-c", "false", "-n", "BEGIN"], "one command is traced"),
        (["-x", "pgmax=1", "-n", "BEGIN"], "Option has no meaning here: it is about the inside of DTrace"),
        (["-32", "-n", "BEGIN"], "32-bit processes are not traced"),
        (["-A", "-s", "x.d"], "-A has no meaning here"),
    ],
)
def test_errors_are_printed_without_a_traceback(dtrace: Dtrace, words: list[str], said: str) -> None:
    done = dtrace(*words)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("clauses", "told"), [(300, True), (20, False)])
def test_a_long_compilation_of_many_clauses_is_announced(dtrace: Dtrace, clauses: int, told: bool) -> None:
    text = "".join(f"tick-{n + 1}h {{ x = {n}; }} " for n in range(clauses - 1))
    done = dtrace("-q", "-n", f"{text} BEGIN {{ exit(0); }}")
    assert done.returncode == 0
    assert (f"dtrace: compiling {clauses} clauses, which takes the C compiler some time\n" in done.stderr) == told


def test_a_program_that_is_only_compiled_does_not_run(dtrace: Dtrace) -> None:
    done = dtrace("-e", "-n", 'BEGIN { printf("run"); exit(3); }')
    assert (done.returncode, done.stdout) == (0, "")


def test_destructive_actions_run_when_allowed(dtrace: Dtrace) -> None:
    done = dtrace("-w", "-q", "-n", 'BEGIN { printf("a\\n"); system("echo %d", 6 * 7); printf("b\\n"); exit(0); }')
    assert (done.returncode, done.stdout) == (0, "a\n42\nb\n\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-P", "dtrace:::"], 'specifier dtrace:::: invalid probe description "dtrace:::": Overspecified probe'),
        (["-m", "a:b:c"], 'specifier a:b:c: invalid probe description "a:b:c": Overspecified probe'),
        (["-n", "a:b:c:d:e"], 'invalid probe description "a:b:c:d:e": Overspecified probe'),
        (["-P", "nosuch"], "specifier nosuch: probe description nosuch::: does not match"),
        (["-f", "::read:"], "specifier ::read:: probe description :read:: does not match"),
        (["-i", "0"], "specifier 0: invalid probe identifier 0: Unknown probe identifier"),
        (["-i", "0", "a"], "specifier 0: invalid probe identifier 0: Unknown probe identifier"),
        (["-f", "7th"], "specifier 7th: probe identifier 7 not permitted when specifying functions"),
        (["-P", "8"], "specifier 8: probe identifier 8 not permitted when specifying providers"),
        (["-m", "9p"], "specifier 9p: probe description :9p:: does not match"),
        (["-i", "2-9"], "specifier 2-9: probe description :::-9 does not match"),
        (["-i", "77777-2"], "specifier 77777-2: probe description :::-2 does not match"),
        (["-i", "1", "a", "b"], "extraneous argument 'b' ($2 is not referenced)"),
    ],
)
def test_errors_quote_a_description_as_it_was_given(dtrace: Dtrace, arguments: list[str], message: str) -> None:
    done = dtrace(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_compiling_without_a_program_succeeds(dtrace: Dtrace) -> None:
    assert dtrace("-e", "-b", "1k").returncode == 0


def test_a_buffer_that_holds_nothing_is_refused_after_the_probes(dtrace: Dtrace) -> None:
    done = dtrace("-x", "aggsize=8", "-n", "BEGIN { @ = count(); exit(0); }")
    assert (done.returncode, done.stdout) == (1, "")
    matched = "dtrace: description 'BEGIN ' matched 1 probe\n"
    assert done.stderr == f"{matched}dtrace: could not enable tracing: Enabling exceeds size of buffer\n"
    assert dtrace("-x", "aggsize=8", "-n", "BEGIN { exit(0); }").returncode == 0


def test_options_about_the_inside_of_dtrace_that_change_no_result_are_taken(dtrace: Dtrace) -> None:
    inert = (
        "iregs=8",
        "preallocate=1m",
        "lockmem=unlimited",
        "lockmem=64k",
        "bpflogsize=1m",
        "jstackstrsize=64",
        "strip",
        "linktype=elf",
    )
    options = [word for each in inert for word in ("-x", each)]
    assert dtrace(*options, "-n", "BEGIN { exit(3); }").returncode == 3
    refused = dtrace("-x", "linktype=dof", "-n", "BEGIN { exit(0); }")
    assert refused.returncode == 1 and "-G makes no files of DTrace's own format" in refused.stderr
    for wrong in ("iregs=9", "iregs=0", "lockmem=much", "linktype=coff"):
        assert "Invalid value for specified option" in dtrace("-x", wrong, "-n", "BEGIN { exit(0); }").stderr


def test_a_clause_whose_only_actions_are_destructive_leaves_a_line(dtrace: Dtrace) -> None:
    done = dtrace("-w", "-n", 'BEGIN { chill(1); } BEGIN { n++; } BEGIN { printf("%d", n); chill(1); exit(0); }')
    assert [line.split()[1:] for line in done.stdout.splitlines()[1:] if line] == [
        ["1", ":BEGIN"],
        ["1", ":BEGIN", "1"],
    ]


def test_segments_are_those_that_linux_gives_to_programs(dtrace: Dtrace) -> None:
    """The C library keeps at the base of FS the address of that place itself."""
    selectors = ", ".join(f"uregs[R_{name}]" for name in ("CS", "SS", "DS", "ES"))
    own = dtrace("-q", "-n", f'BEGIN {{ printf("%x %x %x %x", {selectors}); }} BEGIN {{ exit(0); }}')
    assert own.stdout.split() == ["33", "2b", "0", "0"]
    clause = f'printf("%x %x %x %x %d", {selectors}, *(uint64_t *)uregs[R_FS] == uregs[R_FS]);'
    traced = dtrace("-q", "-n", f"syscall::write:entry {{ {clause} }}", "-c", "echo").stdout
    assert traced.split()[:5] == ["33", "2b", "0", "0", "1"]
    for name in ("TRAPNO", "ERR", "GS"):
        done = dtrace("-q", "-n", f"BEGIN {{ trace(uregs[R_{name}]); }} BEGIN {{ exit(0); }}")
        assert "illegal operation" in done.stderr


def test_versions_of_d(dtrace: Dtrace) -> None:
    assert dtrace("-x", "version=1.6", "-n", "BEGIN { exit(0); }").returncode == 0
    declared = "int strtok; BEGIN { strtok = 3; exit(strtok); }"  # a function since 1.1
    assert dtrace("-x", "version=1.0", "-n", declared).returncode == 3
    assert "built-in identifier redeclared: strtok" in dtrace("-x", "version=1.1", "-n", declared).stderr
    assert "Requested version is not supported" in dtrace("-x", "version=9.0", "-n", "BEGIN { exit(0); }").stderr


def test_a_profile_probe_without_a_process_fires_like_a_tick(dtrace: Dtrace) -> None:
    text = "profile-1msec { n++; } profile-1000hz /n > 4/ { exit(0); }"
    assert dtrace("-q", "-n", text).returncode == 0


def test_raise_in_a_profile_clause_signals_the_sampled_thread(dtrace: Dtrace) -> None:
    """The shell's own trap is the witness. It ends the loop, and so the session."""
    loop = "bash -c 'trap \"echo caught; exit 3\" USR1; while :; do :; done'"
    done = dtrace("-w", "-q", "-n", "profile-997 /n++ == 20/ { raise(SIGUSR1); }", "-c", loop)
    assert (done.stdout.split(), done.stderr) == (["caught"], "")
