# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run tools/conformance on a suite made here, with a command made here in the place of dtrace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Prints the words after "print" in the program that it is given, and complains of those after "complain".
COMMAND = """\
import re, sys, time
text = open(sys.argv[sys.argv.index("-s") + 1]).read()
for word in re.findall(r"print (.*?);", text):
    at = sys.argv.index("-s")
    print(word.replace("OPTIONS", " ".join(sys.argv[at + 2:])).replace("MACHINE", " ".join(sys.argv[1:at][:2])))
for word in re.findall(r"complain (.*?);", text):
    print(word, file=sys.stderr)
for _ in re.findall("wait;", text):
    sys.stdout.flush()
    time.sleep(600)
sys.exit(int((re.findall(r"status (\\d+);", text) or ["0"])[0]))
"""
#: By name of a test: its text, its expected output, the result, and a word of the reason.
SUITE: dict[str, tuple[str, str | None, str, str]] = {
    "tst.alike.d": ("print 0x1234 one;print two;", "two\n0xabcdef one\n", "passed", ""),
    "tst.silent.d": ("print anything;", None, "passed", ""),
    "tst.other.d": ("print one;", "two\n", "failed", "lacks 'two', has 'one'"),
    "tst.ordered.d": ("/* @@nosort */ print b;print a;", "a\nb\n", "failed", "order"),
    "tst.status.d": ("complain not well;status 1;", None, "failed", "status 1, not 0: not well"),
    "tst.options.d": ('/* @@runtest-opts: -q "a b" $tst */ print OPTIONS;', "-q a b test/tst.options\n", "passed", ""),
    "tst.bpf.d": ("print fault 0x1f at BPF pc 17;", "fault {ptr} at BPF pc NNN\n", "passed", ""),
    "tst.tried_again.sh": (
        "# @@reinvoke-failure: 1\nm=/tmp/gilk-again-$PPID; test -e $m && rm $m || { touch $m; false; }", None,
        "passed", ""
    ),
    "tst.crash.d": ("complain Traceback (most recent call last);", None, "failed", "traceback"),
    "tst.skipped.d": ("/* @@skip: no */", "x\n", "skipped", "the suite says so"),
    "tst.skipped_anyway.d": ("/* @@no-xfail */\n/* @@skip: no */", "x\n", "skipped", "the suite says so"),
    "tst.xfail.d": ("/* @@xfail: no */", "x\n", "skipped", "the suite says so"),
    "tst.built.d": ("/* @@trigger: prog 1 */", None, "skipped", "prog is not built"),
    "tst.long.d": ("print one;wait;", None, "failed", "deadline"),
    "tst.long_well.d": ("/* @@timeout-success */ print one;wait;", "one\n", "passed", ""),
    "err.refused.d": ("complain no;status 1;", "-- @@stderr --\nno\n", "passed", ""),
    "err.accepted.d": ("", None, "failed", "status 0, not 1"),
    "err.D_RIGHT.words.d": ("complain [D_RIGHT] a;status 1;", "-- @@stderr --\n[D_RIGHT] b\n", "tag", "lacks"),
    "err.D_RIGHT.all.d": ("complain [D_RIGHT] a;status 1;", "-- @@stderr --\n[D_RIGHT] a\n", "passed", ""),
    "err.D_WRONG.d": ("complain [D_OTHER] a;status 1;", None, "failed", "no [D_WRONG]: [D_OTHER] a"),
    "drp.DTRACEDROP_X.d": (
        "complain [DTRACEDROP_X] 5 drops;print one;", "one\n-- @@stderr --\n[DTRACEDROP_X] 9 drops\n", "passed", ""
    ),
    "tst.named.sh": ('test "$_test" = test/tst.named.sh && test "$tst" = test/tst.named', None, "passed", ""),
    "tst.flags.sh": ('# @@runtest-opts: -x noresolve\ntest "$dt_flags" = "-x noresolve"', None, "passed", ""),
    "tst.shell.sh": ("exit 67", None, "skipped", "cannot be run here"),
    "tst.setting.sh": ("sysctl kernel.none=1; exit 0", None, "skipped", "settings of the machine"),
    "demo/only.d": ("print OPTIONS;", None, "passed", ""),
    "tst.kernel.d": ("syscall::read:entry { print one; }", "one\n", "passed", ""),
}  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    place = tmp_path / "suite" / "test"
    place.mkdir(parents=True)
    (tmp_path / "command.py").write_text(COMMAND)
    for name, (text, expected, _, _) in SUITE.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
        if expected is not None:
            (place / name).with_suffix(".r").write_text(expected)
    return place.parent


def conformance(suite: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} {suite.parent / 'command.py'}"
    # Two tests end only by their deadlines; the others take a small part of it.
    words = [sys.executable, str(ROOT / "tools" / "conformance"), str(suite), "--command", command, "--patience", "0.5"]
    return subprocess.run([*words, *arguments], capture_output=True, text=True, check=False)


def results(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str, str]]:
    rows = json.loads(done.stdout)
    return {row["name"].removeprefix("test/"): (row["result"], row["why"], row["reason"]) for row in rows}


@pytest.mark.stress
def test_each_test_has_its_result(suite: Path) -> None:
    done = conformance(suite, "--json", "--jobs", "4")
    found = results(done)
    assert {name: result for name, (result, _, _) in found.items()} == {name: row[2] for name, row in SUITE.items()}
    for name, (_, _, _, why) in SUITE.items():
        assert why in found[name][1], name
    assert done.returncode == 1
    assert "13 passed, 1 tag, 7 failed, 6 skipped: 61.9% passed, 66.7% with the right tag" in done.stderr


def test_known_results_are_not_run_again(suite: Path, tmp_path: Path) -> None:
    state, names, table = tmp_path / "state", tmp_path / "names", tmp_path / "reasons.toml"
    table.write_text("[reasons]\n")
    names.write_text("test/tst.silent.d\ntest/tst.alike.d\ntest/tst.none.d\n")
    state.write_text(json.dumps(["test/tst.alike.d", "failed", "of yesterday"]) + "\n")
    done = conformance(suite, "--json", "--list", str(names), "--state", str(state), "--reasons", str(table))
    assert results(done) == {"tst.silent.d": ("passed", "", ""), "tst.alike.d": ("failed", "of yesterday", "")}
    assert [json.loads(line)[0] for line in state.read_text().splitlines()] == ["test/tst.alike.d", "test/tst.silent.d"]


def test_tests_that_do_not_pass_are_listed_with_reasons(suite: Path, tmp_path: Path) -> None:
    table = tmp_path / "reasons.toml"
    table.write_text('[reasons]\n"*/tst.ot*" = "there is no other"\n"*" = "whatever"\n')
    done = conformance(suite, "--only", "*other*", "--reasons", str(table))
    lacking = "test/tst.other.d  lacks 'two', has 'one'"
    assert done.stdout.splitlines()[:2] == [f"failed  {lacking}", "        there is no other"]


def test_programs_that_scripts_run_are_built(suite: Path) -> None:
    for place, text in (("triggers/Build", ""), ("utils/workload_seven.c", "int main(void) { return 7; }\n")):
        (suite / "test" / place).parent.mkdir(exist_ok=True)
        (suite / "test" / place).write_text(text)
    (suite / "test" / "tst.workload.sh").write_text('test/utils/workload_seven; test "$?$DTRACE_OPT_CPPARGS" != 7\n')
    assert results(conformance(suite, "--json", "--only", "*workload.sh"))["tst.workload.sh"][0] == "passed"
    (suite / "test" / "tst.workload.sh").write_text("test/utils/workload_seven; test $? = 7\n")
    assert results(conformance(suite, "--json", "--only", "*workload.sh"))["tst.workload.sh"][0] == "failed"
    assert results(conformance(suite, "--json", "--build", "--only", "*workload.sh"))["tst.workload.sh"][0] == "passed"


def test_programs_beside_a_test_say_whether_it_runs_and_what_it_traces(suite: Path) -> None:
    place = suite / "test"
    programs = {
        "beside/tst.own.t": "exit 0", "beside/tst.not_now.x": "exit 1", "not_here/test.x": "exit 2",
        "here/test.x": "exit 0", "triggers/prog": "exec sleep 60",
    }  # fmt: skip
    for name, text in programs.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    for name in ("beside/tst.own.d", "beside/tst.not_now.d", "not_here/tst.one.d", "here/tst.one.d"):
        (place / name).write_text("print OPTIONS;")
    (place / "beside" / "tst.own.r").write_text("-c test/beside/tst.own.t\n")
    (place / "beside" / "tst.begun.sh").write_text("""
        # @@trigger: prog
        # @@trigger-timing: before
        # @@runtest-opts: -p $_pid
        kill -0 ${dt_flags#-p }""")
    found = {name: each[0] for name, each in results(conformance(suite, "--json", "--only", "*here/*")).items()}
    found |= {name: each[0] for name, each in results(conformance(suite, "--json", "--only", "*beside/*")).items()}
    assert found == {
        "beside/tst.begun.sh": "passed", "beside/tst.not_now.d": "skipped", "beside/tst.own.d": "passed",
        "here/tst.one.d": "passed", "not_here/tst.one.d": "skipped",
    }  # fmt: skip


def test_alone_selects_tests_that_need_no_kernel_and_no_program(suite: Path) -> None:
    done = conformance(suite, "--json", "--alone", "--only", "*tst.[abko]*")
    assert set(results(done)) == {"tst.alike.d", "tst.bpf.d", "tst.options.d", "tst.ordered.d", "tst.other.d"}


def test_tests_that_cannot_run_in_another_machine_are_skipped(suite: Path) -> None:
    """A command of -c can; a shell, and a program that is to run beforehand, would be here."""
    (suite / "test" / "triggers").mkdir()
    (suite / "test" / "triggers" / "prog").write_text("")
    for name, begins in (("before", "/* @@trigger-timing: before */"), ("there", "")):
        text = f"/* @@trigger: prog 1 */\n{begins} print MACHINE OPTIONS;"
        (suite / "test" / f"tst.begun_{name}.d").write_text(text)
    (suite / "test" / "tst.begun_there.r").write_text("--on ssh:there -c test/triggers/prog 1\n")
    (suite / "test" / "tst.begun_shell.sh").write_text("exit 0")
    found = results(conformance(suite, "--json", "--on", "ssh:there", "--only", "*begun*"))
    assert found["tst.begun_there.d"][:2] == ("passed", "")
    for name in ("before.d", "shell.sh"):
        skipped = "skipped", "what it starts would run here, not where the kernel is"
        assert found[f"tst.begun_{name}"][:2] == skipped
    assert results(conformance(suite, "--json", "--only", "*begun_shell*"))["tst.begun_shell.sh"][0] == "passed"


def test_tests_about_modules_that_the_suite_has_loaded_are_told_by_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from conformance_suite.case import read

    (tmp_path / "test").mkdir()
    for name, text in (
        ("type", "sizeof(struct tun_page)"),
        ("symbol", "&tun`x"),
        ("other", "/* tun_ */ int tune;"),
    ):
        (tmp_path / f"{name}.d").write_text(text)
    assert not any(read(tmp_path, f"{name}.d").names_a_module for name in ("type", "symbol", "other"))
    (tmp_path / "test" / "modules").write_text("nfs\ntun\n")
    named = {name: read(tmp_path, f"{name}.d").names_a_module for name in ("type", "symbol", "other")}
    assert named == {"type": True, "symbol": True, "other": False}


def test_without_tests_there_is_no_rate(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "suite").mkdir()
    done = conformance(tmp_path / "suite")
    assert (done.returncode, "there are no such tests" in done.stderr) == (2, True)


def test_programs_that_tests_trace_are_built(suite: Path) -> None:
    """Programs are built with the flags of the suite's own list. One that cannot be built is named, and its tests
    are skipped."""
    place = suite / "test" / "triggers"
    place.mkdir()
    (place / "Build").write_text("prog_CFLAGS := -DSTATUS=3\nprog_LIBS := -lm\nof-ours_LIBS := $(objdir)/ours.a\n")
    (place / "prog.c").write_text("#include <math.h>\nint main(int n, char **a) { return STATUS + (floor(n) > 9); }\n")
    (place / "wrong.c").write_text("int main(void) { return }\n")
    (place / "of-ours.c").write_text("int main(void) { return 0; }\n")
    done = conformance(suite, "--build", "--only", "*tst.built.d", "--json")
    assert subprocess.run([place / "prog"], check=False).returncode == 3
    assert "not built: wrong: " in done.stderr and "of-ours" not in done.stderr
    assert results(done)["tst.built.d"][:2] == ("passed", "")
