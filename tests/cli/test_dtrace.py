# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace`` as a user runs it: options, output and exit status. tests/lang/d has the meaning of programs."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.programs.build import build

Dtrace = Callable[..., subprocess.CompletedProcess[str]]
HOT = "pid$target:a.out:hot"
TEXT = "pid$target:a.out:text_hash"


@pytest.fixture
def dtrace(gilk_on_path: dict[str, str], tmp_path: Path) -> Dtrace:
    def run(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
        command = ["gilk", "dtrace", *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, env={**gilk_on_path, **more}, capture_output=True, text=True, timeout=120
        )

    return run


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


def test_words_prints_completions_for_an_editor(dtrace: Dtrace, tmp_path: Path) -> None:
    with Loop([build("work")]) as loop:
        text = "pid$target:a.out:disp"
        done = dtrace("--words", len(text), "-p", loop.pid, "-n", text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "dispatch  work\n", "")
        (tmp_path / "é.d").write_text('BEGIN { trace("é"); }\n\npid$target:a.out:disp')
        done = dtrace("--words", 44, "--json", "-p", loop.pid, "-s", "é.d")
        found = json.loads(done.stdout)
        assert [word["text"] for word in found["words"]] == ["dispatch"] and (found["start"], found["end"]) == (40, 44)
        assert not differences(loop.pid) and not leftovers(loop.pid)


@pytest.mark.parametrize("mode", ["-l", "-e", "-h", "-G"])
def test_modes_about_one_process_are_refused_for_two(dtrace: Dtrace, mode: str) -> None:
    done = dtrace("-n", "BEGIN { }", mode, "-p", 1, "-p", 2)
    assert (done.returncode, done.stdout) != (0, "") and "give one -p" in done.stderr


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("-n", "BEGIN", "--words", "9"), "no-such-letter"),
        (("-n", "BEGIN", "-n", "END", "--words", "1"), "words-of-one"),
        (("-f", "main", "--words", "1"), "words-of-one"),
        (("-s", "nothing.d", "--words", "1"), "cannot-open-script"),
        (("-n", "BEGIN", "-c", "true", "--words", "1"), "two-modes"),
        (("-n", "BEGIN", "-l", "--words", "1"), "two-modes"),
    ],
)
def test_bad_uses_of_words_are_refused(dtrace: Dtrace, words: tuple[str, ...], slug: str) -> None:
    done = dtrace(*words)
    assert done.returncode and f"({slug})" in done.stderr


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
            r"^dtrace: error in dt_clause_0 for probe ID \d+ \(pid\d+:a.out:text_hash:entry\): invalid address",
            done.stderr,
        )
        assert done.stdout.startswith("fault 1\n")
        assert int(done.stdout.split()[-1]) > 0
        assert (differences(loop.pid), leftovers(loop.pid)) == ([], [])


def test_list_prints_the_probes_that_match(dtrace: Dtrace) -> None:
    with Loop([build("work")]) as loop:
        done = dtrace("-l", "-p", loop.pid, "-n", f"{TEXT}:", "-P", "dtrace")
    rows = [line.split() for line in done.stdout.splitlines()]
    pid = f"pid{loop.pid}"
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=text_hash", build("work")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.findall(r"^ +([0-9a-f]+):\t(.*)$", code, re.MULTILINE)
    start = int(found[0][0], 16)
    offsets = {f"{int(address, 16) - start:x}": words for address, words in found}
    listed = [row[4] for row in rows[6:]]
    assert all(row[1:4] == [pid, "a.out", "text_hash"] for row in rows[6:])
    assert listed == [offset for offset in offsets if offset in listed]
    assert all(re.search("nop|xchg +%ax,%ax", offsets[offset]) for offset in offsets.keys() - set(listed))  # padding
    assert rows[:6] == [
        ["ID", "PROVIDER", "MODULE", "FUNCTION", "NAME"],
        ["1", "dtrace", "BEGIN"],
        ["2", "dtrace", "END"],
        ["3", "dtrace", "ERROR"],
        ["4", pid, "a.out", "text_hash", "entry"],
        ["5", pid, "a.out", "text_hash", "return"],
    ]


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


def test_scripts_are_preprocessed_on_request(dtrace: Dtrace, tmp_path: Path) -> None:
    (tmp_path / "number.h").write_text("#define NUMBER 41\n")
    script = tmp_path / "cpp.d"
    script.write_text('#include "number.h"\n#ifdef MORE\nBEGIN { trace(NUMBER + MORE); exit(0); }\n#endif\n')
    done = dtrace("-C", "-D", "MORE=1", "-X", "c", "-H", "-64", "-q", "-s", script)
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert re.search(r"^\. .*number\.h$", done.stderr, re.M)
    script.write_text("#pragma D option cpp\n" + script.read_text())
    assert dtrace("-D", "MORE=2", "-q", "-s", script).stdout == "43\n"
    script.write_text("#pragma D option cpp\nBEGIN { trace(NUMBER + MORE); exit(0); }\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "number.h").write_text("#define NUMBER 100\n")
    options = ["-x", "define=NUMBER=1", "-x", "define=MORE=5", "-x", "undef=NUMBER", "-x", "define=NUMBER=3"]
    done = dtrace(*options, "-q", "-s", script)
    assert (done.returncode, "NUMBER" in done.stderr) == (1, True)  # what is undefined is so at last
    assert dtrace(*options[:4], "-q", "-s", script).stdout == "6\n"
    script.write_text("#include <number.h>\nBEGIN { trace(NUMBER); exit(0); }\n")
    assert dtrace("-x", "cpp", "-x", "incdir=more", "-q", "-s", script).stdout == "100\n"
    script.write_text('#include "number.h"\nBEGIN { nothing; }\n')
    assert f"script {script}: line 2: " in dtrace("-C", "-s", script).stderr


def test_output_is_appended_to_a_file(dtrace: Dtrace, tmp_path: Path) -> None:
    for _ in range(2):
        done = dtrace("-q", "-o", "out", "-n", 'BEGIN { printf("x"); exit(0); }')
        assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "BEGIN { nothing; }"], "line 1: failed to resolve nothing: Unknown variable name"),
        (["-xerrtags", "-n", "BEGIN { nothing; }"], "[D_IDENT_UNDEF] line 1: "),
        (["-xempty", "-s", "/dev/null"], "dtrace: no probes matched"),
        (["-n", "nosuch:::probe"], "probe description nosuch:::probe does not match any probes"),
        (["-s", "/nowhere.d"], "dtrace: failed to open /nowhere.d: No such file or directory"),
        (["-x", "foo", "-n", "BEGIN"], "dtrace: failed to set -x foo: Invalid option name"),
        (["-p", "1999999999", "-n", "BEGIN"], "dtrace: there is no process 1999999999"),
        (["-n", 'BEGIN { system("true"); }'], "Destructive actions not allowed"),
        (["-n", "BEGIN { pcap((void *)1, 2); }"], "pcap( ) is not here: packets are the kernel's"),
        (["-c", "sh 'x", "-n", "BEGIN"], "No closing quotation"),
        (["-c", "sh", "-p", "1", "-n", "BEGIN"], "-p and -c exclude each other"),
        (["-p", "1999999998", "-p", "1999999999", "-n", "BEGIN"], "dtrace: there is no process 1999999998"),
        (["-c", "true", "-c", "false", "-n", "BEGIN"], "one command is traced"),
        (["-x", "pcapsize=1", "-n", "BEGIN"], "Option has no meaning here: there is no pcap()"),
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


def test_json_has_an_object_a_line_and_loses_nothing(dtrace: Dtrace) -> None:
    program = r'BEGIN { @[probename] = count(); printf("%s %u", "a\377b", 18446744073709551615); exit(3); }'
    done = dtrace("--json", "-n", program)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, lines[0]["type"], lines[0]["version"]) == (3, "", "dtrace", 1)
    (printed,) = (line for line in lines if line["type"] == "printed")
    assert printed["values"] == [{"bytes": "61ff62"}, 18446744073709551615]
    (snapshot,) = (line for line in lines if line["type"] == "snapshot")
    assert snapshot["rows"] == [{"keys": ["BEGIN"], "values": [1]}]
    assert lines[-1] == {"type": "exited", "status": 3, "restored": None}


def test_json_has_the_error_of_a_program_that_does_not_compile(dtrace: Dtrace) -> None:
    done = dtrace("--json", "-n", "BEGIN { nothing; }")
    first, last = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr, first["type"]) == (1, "", "dtrace")
    assert (last["type"], last["error"]["tag"]) == ("error", "D_IDENT_UNDEF")


def test_messages_go_to_the_terminal_too_when_json_goes_to_a_file(dtrace: Dtrace, tmp_path: Path) -> None:
    done = dtrace("--json", "-o", tmp_path / "out", "-n", "BEGIN { nothing; }")
    last = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert (done.returncode, done.stdout, last["type"]) == (1, "", "error")
    assert last["error"]["message"] in done.stderr


def test_json_ends_in_order_at_a_signal(gilk_on_path: dict[str, str]) -> None:
    words = ["gilk", "dtrace", "--json", "-n", "tick-1ms { @ = count(); } tick-1ms /!n++/ { trace(n); }"]
    with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout
        while json.loads(run.stdout.readline())["type"] != "printed":
            pass
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=250)
    kinds = [json.loads(line)["type"] for line in out.splitlines()]
    assert (run.returncode, err) == (0, "") and kinds[-3:] == ["ended", "snapshot", "exited"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_dtrace_ends_when_its_reader_closes_the_pipe(gilk_on_path: dict[str, str], form: list[str]) -> None:
    """SIGPIPE ends the command, as it ends others, and the process is what it was."""
    with Loop([build("work")]) as loop:
        words = ["gilk", "dtrace", *form, "-q", "-n", f'{TEXT}:entry {{ printf("hit\\n"); }}', "-p", str(loop.pid)]
        with subprocess.Popen(words, env=gilk_on_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            assert run.stdout and run.stderr and run.stdout.readline()
            run.stdout.close()
            assert run.wait(timeout=250) in (-signal.SIGPIPE, 128 + signal.SIGPIPE)
            assert b"Traceback" not in run.stderr.read()
        assert wait_for(lambda: not differences(loop.pid) and not leftovers(loop.pid))


def test_json_of_a_launched_command_has_every_call(dtrace: Dtrace, tmp_path: Path) -> None:
    """The command's own output stays out of the file."""
    program = 'pid$target:bash:xmalloc:entry { @ = count(); trace(arg0); } END { printf("%s", "done"); }'
    done = dtrace("--json", "-o", "out", "-n", program, "-c", "bash -c 'echo {}'")
    events = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    (snapshot,) = (event for event in events if event["type"] == "snapshot")
    traced = [event for event in events if event["type"] == "printed" and event["action"] == "trace"]
    assert (done.returncode, done.stdout, events[-1]["restored"]) == (0, "{}\n", True)
    assert snapshot["rows"] == [{"keys": [], "values": [len(traced)]}] and traced


def test_output_as_a_parquet_table_of_records_and_aggregations(
    dtrace: Dtrace, tmp_path: Path, gilk_on_path: dict[str, str]
) -> None:
    program = 'pid$target:bash:xmalloc:entry { @[probefunc] = count(); printf("%d bytes\\n", arg0); }'
    done = dtrace("-q", "-o", "out.parquet", "-n", program, "-c", "bash -c 'echo {}'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{}\n", "")
    right = "type = 'printed' AND text = data[1].integer || ' bytes' || chr(10)"
    sql = f"SELECT (SELECT count(*) FROM events WHERE {right}), keys[1].text, total.integer FROM aggregations"
    words = ["gilk", "query", "out.parquet", sql, "--json"]
    asked = subprocess.run(words, env=gilk_on_path, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    ((printed, key, counted),) = json.loads(asked.stdout)["rows"]
    assert key == "xmalloc" and printed == counted > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--json", "-o", "x.parquet"], "only one can be given"),
        (["-o", "/proc/x.parquet"], "cannot make|cannot-write|No such file"),
        (["-o", "."], "is not a regular file|Is a directory|cannot-write"),
    ],
)
def test_an_impossible_output_table_is_refused_before_the_program_runs(
    dtrace: Dtrace, words: list[str], told: str
) -> None:
    done = dtrace(*words, "-n", 'BEGIN { system("echo run"); exit(0); }', "-w")
    assert done.returncode in (1, 2) and re.search(told, done.stdout + done.stderr) and "run\n" not in done.stdout


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
        (["-i", "1", "a", "b"], "extraneous argument 'b' ($2 is not referenced)"),
    ],
)
def test_errors_quote_a_description_as_it_was_given(dtrace: Dtrace, arguments: list[str], message: str) -> None:
    done = dtrace(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_list_reports_descriptions_that_match_nothing(dtrace: Dtrace) -> None:
    done = dtrace("-l", "-m", "nosuch", "-n", "END")
    assert (done.returncode, [line.split()[-1] for line in done.stdout.splitlines()]) == (0, ["NAME", "END"])
    assert done.stderr == "dtrace: failed to match :nosuch::: No probe matches description\n"


def test_a_list_without_a_process_has_the_system_calls(dtrace: Dtrace) -> None:
    """They are those of the kernel's header; only a description that means some is told to take a process."""
    header = subprocess.run(
        ["cc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    done = dtrace("-l", "-n", "syscall::read*:entry", "-n", "syscall::nosuch*:")
    listed = [line.split()[1:] for line in done.stdout.splitlines()[1:]]
    wanted = set(re.findall(r"__NR_(read\w*) ", header))
    assert len(wanted) > 3
    assert sorted(listed) == sorted(["syscall", "vmlinux", name, "entry"] for name in wanted)
    assert done.stderr == "dtrace: failed to match syscall::nosuch*:: No probe matches description\n"
    assert "that takes a process" in dtrace("-n", "syscall::read*:entry").stderr
    assert dtrace("-n", "syscall::nosuch*:entry").stderr.endswith("does not match any probes\n")


def test_compiling_without_a_program_succeeds(dtrace: Dtrace) -> None:
    assert dtrace("-e", "-b", "1k").returncode == 0


def test_a_buffer_that_holds_nothing_is_refused_after_the_probes(dtrace: Dtrace) -> None:
    done = dtrace("-x", "aggsize=8", "-n", "BEGIN { @ = count(); exit(0); }")
    assert (done.returncode, done.stdout) == (1, "")
    matched = "dtrace: description 'BEGIN ' matched 1 probe\n"
    assert done.stderr == f"{matched}dtrace: could not enable tracing: Enabling exceeds size of buffer\n"
    assert dtrace("-x", "aggsize=8", "-n", "BEGIN { exit(0); }").returncode == 0


def test_preprocessor_complains_about_its_input_by_the_name_that_it_has_in_dtrace(
    dtrace: Dtrace, tmp_path: Path
) -> None:
    script = tmp_path / "s.d"
    script.write_text("BEGIN { trace(__FILE__); exit(0); }\n")
    assert dtrace("-C", "-q", "-s", script).stdout == "/dev/stdin\n"
    script.write_text("BEGIN\n#ifdef NOTHING\n{ exit(0); }\n")
    done = dtrace("-C", "-s", script)
    assert done.returncode == 1 and re.match(r"/dev/stdin:2:[\d:]* error: ", done.stderr)
    assert f"failed to compile script {script}: Preprocessor failed" in done.stderr


def test_options_about_the_inside_of_dtrace_that_change_no_result_are_taken(dtrace: Dtrace) -> None:
    inert = ("iregs=8", "preallocate=1m", "lockmem=unlimited", "lockmem=64k", "bpflogsize=1m", "jstackstrsize=64")
    options = [word for each in inert for word in ("-x", each)]
    assert dtrace(*options, "-n", "BEGIN { exit(3); }").returncode == 3
    for wrong in ("iregs=9", "iregs=0", "lockmem=much"):
        assert "Invalid value for specified option" in dtrace("-x", wrong, "-n", "BEGIN { exit(0); }").stderr


def test_preprocessor_options_reach_the_preprocessor(dtrace: Dtrace, tmp_path: Path) -> None:
    script = tmp_path / "s.d"
    script.write_text("#ifdef GIVEN\nBEGIN { exit(3); }\n#endif\n")
    assert dtrace("-x", "cpp", "-x", "cppargs=-DGIVEN", "-s", str(script)).returncode == 3
    assert dtrace("-x", "cpp", "-x", "cppargs=-UGIVEN -DGIVEN", "-s", str(script)).returncode == 3
    assert "cannot be run" in dtrace("-x", "cpp", "-x", "cpppath=/nonesuch", "-s", str(script)).stderr
    assert "failed to set -x stdc: Invalid value" in dtrace("-x", "stdc=x", "-s", str(script)).stderr
    done = dtrace("-x", "cpp", "-x", "cpppath=/bin/cat", "-s", str(script))  # its own name is what a shell would give
    assert done.returncode == 1 and done.stderr.startswith("cat: ")
    assert done.stderr.endswith(f"compile script {script}: Preprocessor failed to process input program\n")
    script.write_text("#include <endian.h>\nBEGIN { exit(__BYTE_ORDER == __LITTLE_ENDIAN); }\n")
    assert dtrace("-x", "cpp", "-s", str(script)).returncode == 1  # that header has functions of C beyond C99
    script.write_text("#pragma D option stdc=a\nBEGIN { exit(0); }\n")
    assert "Option cannot be used from within a D program" in dtrace("-s", str(script)).stderr


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
