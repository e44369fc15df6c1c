# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects woven into running programs: advice at calls and sequences of calls, and what remains after every way to
end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import gilk
from gilk.api.aspects import held
from gilk.engines.aspect.woven_process import WovenProcess
from gilk.errors import GilkError, TargetError
from tests.behaviour.advised import aspects, build, rounds
from tests.behaviour.harness import ENVIRONMENT, differences, leftovers, run_gilk, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples" / "aspects"

PARSER = """
NOINLINE long parse(const char *text, int flags) { __asm__ volatile(""); return text ? text[0] + flags : -5; }
NOINLINE long twice(long a) { __asm__ volatile(""); return 2 * a; }
static void one_round(void)
{
	static long n;
	long parsed;

	n++;
	parsed = parse(n & 1 ? "abc" : 0, (int)n);
	printf("%ld %ld\\n", parsed, twice(n));
}
"""
NULL_TEXT = """group A;
A: call(long parse(const char *text, int flags)) && if (!text) then inplace { report("parse(0, %d)", flags); return -1; };
A: call(long twice(long a)) && return(r) && if (r > 4) then after { report("twice(%ld) = %ld", a, r); };
"""


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("parser"), PARSER)


def woven(path: Path, pid: int, *more: str) -> tuple[list[str], dict[str, Any], str]:
    """Run ``gilk weave --json``. Returns the texts of its reports, its last object ({} without), and its standard error."""
    done = run_gilk("weave", path, "-p", str(pid), "--json", *more)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["report"]["text"] for line in lines if "report" in line], lines[-1] if lines else {}, done.stderr


def test_advice_in_place_and_after(parser: Path, tmp_path: Path) -> None:
    path = aspects(tmp_path, NULL_TEXT)
    with rounds(parser) as program:
        assert [program.ask() for _ in range(2)] == ["98 2", "-5 4"]
        with gilk.attach(program.pid) as target, gilk.weave(path, target) as weaving:
            assert [program.ask() for _ in range(2)] == ["100 6", "-1 8"]
            assert [one.text for one in weaving.reports()] == ["twice(3) = 6", "parse(0, 4)", "twice(4) = 8"]
            assert [one.matches for one in weaving.counts()] == [(1,), (2,)]
        assert weaving.processes[0].session.restored is True
        assert [program.ask() for _ in range(2)] == ["102 10", "-5 12"]
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])


PRINTED = """
call(long twice(long a)) then {
    report("%d %5ld|%-5x|%05d %s %.2s %c %% %p %g %.1f %u", -7, a, 255, 42, "text", "cut", 'c', (void *)16, 1.5, 2.25, 7u);
    report("%s and %s", LONG, "more" LONG LONG); report("%s%ld", LONG LONG LONG, a); };
""".replace("LONG", f'"{"0123456789" * 10}"')


def test_a_report_is_printed_as_printf_does(parser: Path, tmp_path: Path) -> None:
    """A report that is longer than its record is cut, and ends in "..."."""
    with rounds(parser) as program, gilk.attach(program.pid) as target:
        with gilk.weave(aspects(tmp_path, PRINTED), target) as weaving:
            program.ask()
            first, second, third = (one.text for one in weaving.reports())
    assert first == "-7     1|ff   |00042 text cu c % 0x10 1.5 2.2 7"
    assert second == f"{'0123456789' * 10} and more{'0123456789' * 20}"[: len(second) - 3] + "..." and len(second) > 200
    assert third == f"{'0123456789' * 30}"[: len(third) - 3] + "..." and len(third) > 200


TABLES = """
group A;
table flags_of key(int, char [16]) sum;
table kinds key(long) count;
table least key(long) min;
table mean key(long) avg;
A: call(long parse(const char *text, int flags)) then {
    add(flags_of, flags & 3, text ? text : "none", 2); add(least, 1, flags); add(mean, 1, flags); };
A: call(long twice(long a)) && return(r) then after { add(kinds, r & 3, 1); };
"""


def test_tables_aggregate_the_values_that_are_added(parser: Path, tmp_path: Path) -> None:
    with rounds(parser) as program:
        with gilk.attach(program.pid) as target, gilk.weave(aspects(tmp_path, TABLES), target) as weaving:
            for _ in range(8):
                program.ask()
            found = {one.table.name: one.rows for one in weaving.tables()}
        # from 1 to 8, an odd number with a text
        assert sorted((row.key[0], row.key[4:8].rstrip(b"\0"), row.sum) for row in found["flags_of"]) == [
            (0, b"none", 4), (1, b"abc", 4), (2, b"none", 4), (3, b"abc", 4),
        ]  # fmt: skip
        assert {row.key[0]: row.count for row in found["kinds"]} == {2: 4, 0: 4}
        assert ([row.least for row in found["least"]], [row.sum / row.count for row in found["mean"]]) == ([1], [4.5])


FINALIZED = """
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open(const char *, sqlite3 **), sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_step(sqlite3_stmt *), sqlite3_finalize(sqlite3_stmt *);
static void one_round(void)
{
	static sqlite3 *db;
	static int n;
	sqlite3_stmt *s = 0;
	int right, wrong = 0;

	if (!db)
		sqlite3_open(":memory:", &db);
	sqlite3_prepare_v2(db, "select 1", -1, &s, 0);
	right = sqlite3_step(s);
	sqlite3_finalize(s);
	if (n++ > 0)
		wrong = sqlite3_step(s);
	printf("%d %d\\n", right, wrong);
}
"""


def test_an_aspect_makes_the_use_of_a_finalized_sqlite_statement_fail(tmp_path: Path) -> None:
    """Without the aspect the call corrupts memory, or ends the program; with it the call fails, as SQLite's own
    calls do."""
    program_path = build(tmp_path, FINALIZED, "-O2", "-Wl,--no-as-needed", "-l:libsqlite3.so.0")
    with rounds(program_path) as program:
        assert program.ask() == "100 0"
        with gilk.attach(program.pid) as target, gilk.weave(EXAMPLES / "finalized.aspect", target) as weaving:
            assert [program.ask() for _ in range(20)] == ["100 21"] * 20
            reports = [one.text for one in weaving.reports()]
            assert len(reports) == 20 and all(text.endswith(" used") for text in reports)
            (counts,) = weaving.counts()
            assert counts.matches[:2] == (20, 20)
            assert counts.begun == counts.open + counts.ended + counts.replaced
        assert not leftovers(program.pid)


SERVER = Path(__file__).with_name("vulnerable.c")
FIX = """
%{ #include <string.h> %}
aspect header: call(long take_header(char *to, const char *header)) then inplace {
    if (strlen(header) > 30) { report("header of %lu bytes refused", (unsigned long)strlen(header)); return -1; }
    return proceed(); };
aspect null: call(long look_up(const char *name)) && if (!name) then inplace { report("no name"); return -1; };
"""


@contextmanager
def server(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the server with its eight threads. Yields it, and the port on which it listens."""
    path = place / "server"
    options = ["-O2", "-pthread", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fno-optimize-sibling-calls"]
    subprocess.run(["gcc", *options, "-o", path, SERVER], check=True)
    with subprocess.Popen([path], stdout=subprocess.PIPE) as program:
        assert program.stdout
        try:
            yield program, int(program.stdout.readline())
        finally:
            program.kill()


def ask(connection: socket.socket, line: str) -> str:
    connection.sendall(f"{line}\n".encode())
    answer = b""
    while not answer.endswith(b"\n"):
        if not (more := connection.recv(4096)):
            return ""
        answer += more
    return answer.decode().strip()


@pytest.mark.parametrize("attack", ["header " + "x" * 3000, "look"])
def test_a_vulnerable_server_dies_without_the_fix(tmp_path: Path, attack: str) -> None:
    with server(tmp_path) as (program, port), socket.create_connection(("127.0.0.1", port), 60) as one:
        assert ask(one, "header name") == "4"
        try:
            assert ask(one, attack) == ""
        except ConnectionError:
            pass
        assert program.wait(60) < 0


def test_a_vulnerable_server_lives_with_the_fix_and_loses_no_request(tmp_path: Path) -> None:
    """Open connections survive weaving and unweaving, and every request is answered."""
    with server(tmp_path) as (program, port):
        open_ones = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(8)]
        assert [ask(one, "header name") for one in open_ones] == ["4"] * 8
        for _ in range(3):
            with gilk.attach(program.pid) as target, gilk.weave(aspects(tmp_path, FIX), target) as weaving:
                for one in open_ones:
                    assert ask(one, "header " + "x" * 3000) == "-1"
                    assert ask(one, "look") == "-1"
                    assert ask(one, "look name") == "4"
                    assert ask(one, "header name") == "4"
                said = [report.text for report in weaving.reports()]
            assert said == ["header of 3000 bytes refused", "no name"] * 8
            assert (differences(program.pid), leftovers(program.pid)) == ([], [])
            assert [ask(one, "header name") for one in open_ones] == ["4"] * 8
        for one in open_ones:
            one.close()


def test_an_aspect_is_woven_into_all_processes_or_none(parser: Path, tmp_path: Path) -> None:
    other = build(tmp_path, PARSER.replace("twice", "thrice"))
    with rounds(parser) as one, rounds(other) as two:
        done = run_gilk("weave", aspects(tmp_path, NULL_TEXT), "-p", str(one.pid), "-p", str(two.pid))
        assert (done.returncode, "(no-such-function)" in done.stderr) == (2, True)
        assert "line 3" in done.stderr
        assert (differences(one.pid), leftovers(one.pid)) == ([], [])
        assert (one.ask(), two.ask()) == ("98 2", "98 2")


def test_groups_decide_which_process_gets_which_advice(parser: Path, tmp_path: Path) -> None:
    text = NULL_TEXT.replace("group A;", "group A; group B;").replace("A: call(long twice", "B: call(long twice")
    with rounds(parser) as one, rounds(parser) as two, gilk.attach(one.pid) as first, gilk.attach(two.pid) as second:
        groups = {one.pid: ("A",), two.pid: ("B",)}
        with gilk.weave(aspects(tmp_path, text), first, second, groups=groups) as weaving:
            assert [[each.ask() for _ in range(3)][-2:] for each in (one, two)] == [
                ["-1 4", "100 6"],
                ["-5 4", "100 6"],
            ]
            assert {(each.pid, each.text) for each in weaving.reports()} == {
                (one.pid, "parse(0, 2)"), (two.pid, "twice(3) = 6"),
            }  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_the_weaver_ends_everything_is_removed(parser: Path, tmp_path: Path, how: signal.Signals) -> None:
    with rounds(parser) as program:
        words = [sys.executable, "-m", "gilk", "weave", str(aspects(tmp_path, NULL_TEXT)), "-p", str(program.pid)]
        weaver = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE)
        with weaver:
            assert wait_for(lambda: "-1" in program.ask())
            weaver.send_signal(how)
            weaver.wait(250)
        # The weaver may have been about to say that it has begun.
        assert weaver.returncode in ((-how,) if how is signal.SIGKILL else (0, 128 + how))
        assert wait_for(lambda: (differences(program.pid), leftovers(program.pid)) == ([], []))
        program.ask()


def test_a_launched_program_keeps_its_status_and_output(tmp_path: Path) -> None:
    done = run_gilk("weave", EXAMPLES / "deny.aspect", "--", "cat", "/etc/hostname")
    assert (done.returncode, done.stdout) == (1, "")
    (report,) = re.findall(r"\[\d+\] /etc/hostname denied\n", done.stderr)  # maybe between pieces of cat's output
    assert "cat: /etc/hostname: Permission denied" in done.stderr.replace(report, "")
    done = run_gilk("weave", EXAMPLES / "deny.aspect", "-q", "--", "sh", "-c", "exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


REFUSED = [
    ("K: call(long vfs_read(void *f)) then { report(\"x\"); };", "no-target", "in the kernel"),
    ("writeGlobal(int counter) then { report(\"x\"); };", "no-such-variable", "counter"),
    ("controlflow(call(int twice(long a)), writeGlobal(int b));", "no-such-variable", "b"),
    ("seq(call(long twice(long a)) && bind(void *b, (void *)a); write(b, 8) then { report(\"x\"); });", "strange-access",
     "line 1"),
    ("call(long twice(long a)); call(long twice(long a, long b));", "cannot-weave", "other parameters"),
    ("call(long nothing_there(long a)) then { report(\"x\"); };", "no-such-function", "nothing_there"),
    ("call(long libnothing:twice(long a)) then { report(\"x\"); };", "no-such-image", "libnothing"),
    ("call(long twice(long a)) then { ", "bad-aspects", "line 1"),
    ("call(long twice(long a)) then { nothing_there(a; };", "bad-aspects", "A_C"),
    ("call(long twice(long a)) && if (nothing->b) then { report(\"x\"); };", "does-not-compile", "nothing"),
    ("call(long twice(long a)) then { int b = \"a number\"; report(\"%d\", b); };", "does-not-compile", "int-conversion"),
    ("call(long twice(long a)) then { return 5; };", "does-not-compile", "return-type"),
    ("", "cannot-weave", "no aspect"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "slug", "words"), REFUSED)
def test_aspects_that_cannot_be_woven_are_refused_by_name(
    parser: Path, tmp_path: Path, text: str, slug: str, words: str
) -> None:
    """The program stays as it was."""
    with rounds(parser) as program, gilk.attach(program.pid) as target:
        with pytest.raises(GilkError) as raised:
            gilk.weave(aspects(tmp_path, text), target)
        assert raised.value.slug == slug
        assert words in f"{raised.value}"
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])
        assert program.ask() == "98 2"


def test_a_command_whose_weaving_is_refused_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not run even if everything was woven in already and has to come out again."""
    weave = WovenProcess.weave

    def refused(process: WovenProcess) -> None:
        weave(process)
        raise TargetError("cannot-weave", "as if another process had refused it")

    monkeypatch.setattr(WovenProcess, "weave", refused)
    text = 'group A;\nA: call(int libc:rename(const char *a, const char *b)) then { report("renamed"); };'
    here, there = tmp_path / "here", tmp_path / "there"
    here.touch()
    with (
        pytest.raises(TargetError, match="as if another"),
        held(aspects(tmp_path, text), [], ["mv", str(here), str(there)]) as (weaving, *_),
    ):
        weaving.weave()
    assert wait_for(lambda: not _runs_with(str(there)))
    assert here.exists()


def _runs_with(word: str) -> list[str]:
    """The processes that have this word as an argument."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [place.parent.name] if word in place.read_bytes().decode(errors="replace").split("\0") else []
    return found


def test_a_dry_run_changes_nothing(parser: Path, tmp_path: Path) -> None:
    text = NULL_TEXT + 'A: call(int libc:atoi(const char *s)) then { report("x"); };'
    with rounds(parser) as program:
        done = run_gilk("weave", aspects(tmp_path, text), "-p", str(program.pid), "--dry-run", "--json")
        found = {one["function"]: one for one in json.loads(done.stdout)["shadows"]}
        assert found["parse"]["elements"] == [{"aspect": "#1", "number": 1, "moment": "before"}]
        assert found["twice"]["refused"] is None
        assert (found["parse"]["points"], found["parse"]["also"]) == (1, [])
        assert (differences(program.pid), leftovers(program.pid)) == ([], [])
        assert program.ask() == "98 2"


TAILS = """
NOINLINE long far(long a) { __asm__ volatile(""); return a + 1; }
NOINLINE long near(long a) { __asm__ volatile(""); return a & 1 ? far(a) : a; }
static void one_round(void) { static long n; n++; printf("%ld\\n", near(n)); }
"""


def test_a_dry_run_names_the_tail_called_functions_in_which_calls_may_return(tmp_path: Path) -> None:
    """objdump shows the jump."""
    path = build(tmp_path, TAILS, "-O2", "-g", "-foptimize-sibling-calls")
    code = subprocess.run(
        ["objdump", "-d", "--disassemble=near", path], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"\bj\w+ .*<far>", code)
    with rounds(path) as program:
        text = 'call(long near(long a)) && return(r) && if (r > 1000) then after { report("%ld", r); };'
        words = ("weave", aspects(tmp_path, text), "-p", str(program.pid), "--dry-run")
        (near,) = json.loads(run_gilk(*words, "--json").stdout)["shadows"]
        assert near["also"] == ["far"] and near["points"] >= 4  # both entries, a jump, a return
        assert "may return in far" in run_gilk(*words).stdout


def test_bad_command_lines_are_refused(parser: Path, tmp_path: Path) -> None:
    path = aspects(tmp_path, NULL_TEXT)
    for words, slug in (
        ((path,), "no-target"), ((tmp_path / "none.aspect", "-p", "1"), "no-such-file"),
        ((path, "-g", "A=x"), "bad-group"), ((path, "-g", "B=1"), "bad-group"), ((path, "-p", "4194999"), "no-such-process"),
    ):  # fmt: skip
        done = run_gilk("weave", *map(str, words))
        assert (f"({slug})" in done.stderr, done.stdout) == (True, ""), done.stderr
