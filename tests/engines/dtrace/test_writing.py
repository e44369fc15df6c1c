# SPDX-License-Identifier: LGPL-2.1-or-later
"""While a program is written, its problems are those of `gilk dtrace`, its preview agrees with a session, and the
process is not affected."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.api.d_writing import DWriting
from gilk.errors import TargetError, UsageError
from gilk.targets.looking import look
from tests.behaviour.harness import Loop, differences, leftovers, run_gilk
from tests.programs.build import build
from tests.providers.sessions import traced

SOURCE = """
#include <stdio.h>
struct inner { int depth; };
struct thing { struct inner in; struct thing *next; union { long size; char *name; }; };
struct thing first = { { 1 }, &first, { 2 } };
__attribute__((noinline)) long touch(struct thing *t) { return t->in.depth + t->size; }
int main(void) { puts("ready"); fflush(stdout); getchar(); return (int)touch(&first); }
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The number of a process that waits for its input to end."""
    place = tmp_path_factory.mktemp("writing")
    (place / "waiting.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-O1", "-o", place / "waiting", place / "waiting.c"], check=True)
    pipe = subprocess.PIPE
    with subprocess.Popen([place / "waiting"], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop([build("work")]) as found:
        yield found


def offered(writing: DWriting, text: str) -> list[str]:
    return [word.text for word in writing.words(text, len(text)).words]


TOUCH = "pid$target:a.out:touch:entry { trace(args[0]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{TOUCH}->", {"in", "next", "size", "name"}),
        (f"{TOUCH}->next->next->", {"in", "next", "size", "name"}),
        (f"{TOUCH}->in.", {"depth"}),
        (f"{TOUCH}.", set()),
        ("pid$target:a.out:touch:entry /args[0]->n", {"next", "name", "in"}),
        ("pid$target:a.out:touch:entry { this->t = args[0]; trace(this->t->s", {"size"}),
        ("pid$target:a.out:touch:entry { self->t = (struct thing *)arg0; } END { trace(self->t->n", {"next", "name"}),
        ("BEGIN { trace(`fir", {"first"}),
        ("BEGIN { trace(a.out`first.in.", {"depth"}),
        ("pid$target:a.out:tou", {"touch"}),
        ("pid$target:waiting:tou", {"touch"}),
        ("pid$target:nothing:tou", set()),
        ("pid$target:a.out:touch:", {"entry", "return"}),
    ],
)  # fmt: skip
def test_completions_are_words_of_the_programs_source(waiting: int, text: str, words: set[str]) -> None:
    assert words <= set(offered(DWriting(waiting), text)) and bool(words) == bool(offered(DWriting(waiting), text))


def test_completed_functions_are_those_of_nm(waiting: int) -> None:
    program = Path(f"/proc/{waiting}/exe").resolve()
    listed = subprocess.run(["nm", program], capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    known = {row[2] for row in rows if len(row) == 3 and row[1] in "tT" and row[2].startswith("_")}
    found = {name for name in offered(DWriting(waiting), "pid$target:a.out:_") if name.startswith("_")}
    assert {"_start", "_init"} <= known & found


def test_completed_modules_are_the_mapped_files(loop: Loop) -> None:
    found = set(offered(DWriting(loop.pid), "pid$target:"))
    mapped = subprocess.run(["grep", "r-xp.*/", f"/proc/{loop.pid}/maps"], capture_output=True, text=True).stdout
    names = {Path(line.split()[5]).name for line in mapped.splitlines()}
    assert found == {"a.out"} | (names - {"work"})


#: Texts, and the part of each that the error points to.
WRONG = [
    ("BEGIN { x", ""),
    ("BEGIN { trace(nothing_at_all); }", "nothing_at_all"),
    ("BEGIN {\n\ttrace(1);\n\t@ = quantise(1);\n}", "quantise(1)"),
    ("BEGIN { trace(1) trace(2); }", "trace"),
    ("pid$target:a.out:no_such_thing:entry { }", "pid$target:a.out:no_such_thing:entry"),
    ("BEGIN { }\nBEGIN, syscall::nope:entry,\npid$target::nope: { }", "syscall::nope:entry"),
    ("BEGIN { @ = count(1); }", "count(1)"),
    ("#pragma D option nothing\nBEGIN { }", None),
    ("BEGIN { trace($1); }", "$1"),
    ("", ""),
    ("profile-97 { trace(curpsinfo->pr_nothing); }", None),
    ('BEGIN { trace("a\x07\u202eb', '"a\x07\u202eb'),
]


@pytest.mark.parametrize(("text", "blamed"), WRONG)
def test_problems_while_writing_are_those_of_the_command(loop: Loop, text: str, blamed: str | None) -> None:
    told = json.loads(run_gilk("dtrace", "--json", "-e", "-p", str(loop.pid), "-n", text).stdout.splitlines()[-1])
    problem = DWriting(loop.pid).check(text).problems[0]
    told = told["error"]
    assert (problem.message, problem.tag) == (told["message"], told["tag"])
    assert problem.line == told["line"] or told["line"] == 0
    assert problem.slug == ("no-such-probe" if told["tag"] in ("D_PDESC_ZERO", "D_PROC_FUNC") else "bad-d-program")
    if blamed is not None:
        assert problem.span is not None and text[problem.span.start : problem.span.end] == blamed
        before = text[: problem.span.start]
        assert (problem.line, problem.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)


@pytest.mark.parametrize(
    "text",
    ["BEGIN", "pid$target:a.out::entry, tick-1s { @[probefunc] = count(); }", "syscall::read*: { }\nEND { }",
     "proc::: { }"],
)  # fmt: skip
def test_probes_are_counted_as_the_command_counts_them(loop: Loop, text: str) -> None:
    found = DWriting(loop.pid).check(text)
    listed = run_gilk("dtrace", "-l", "-p", str(loop.pid), "-n", text).stdout.splitlines()[1:]
    assert not found.problems and found.probes == len(listed)
    assert [text[each.span.start : each.span.end] for each in found.descriptions] == [
        part.strip() for clause in text.replace("}", "{").split("{")[::2] for part in clause.split(",") if part.strip()
    ]


def test_actions_that_the_window_does_not_run_are_problems(loop: Loop) -> None:
    text = 'BEGIN { trace(1); system("true"); }'
    (problem,) = DWriting(loop.pid).check(text).problems
    assert problem.slug == "destructive-in-window" and problem.span is not None
    assert text[problem.span.start :].startswith("system")
    small = "#pragma D option bufsize=16\nBEGIN { trace(1); }"
    assert [each.slug for each in DWriting(loop.pid).check(small).problems] == ["no-room-for-records"]


def offsets(function: str) -> str:
    """A program with probes at the instructions of a function."""
    return "#pragma D option zdefs\n" + "".join(f"pid$target:a.out:{function}:{n:x} {{ }}\n" for n in range(1, 48))


OVERLAP = "pid$target:a.out:sb_overlap"
RUNS = "END { exit(0); } tick-10hz { exit(0); }"


@pytest.mark.parametrize(
    ("program", "text", "refusals"),
    [
        ("shortblocks", f"{OVERLAP}:entry, {OVERLAP}:return {{ @ = count(); }}", {"overlap"}),
        ("rseq", offsets("rseq_increment"), {"rseq"}),
        pytest.param(
            "work", "syscall:::entry, syscall:::return, proc::: { @ = count(); } tick-1s { }", set(),
            marks=pytest.mark.stress,
        ),
    ],
)  # fmt: skip
def test_a_session_instruments_what_the_preview_predicts(program: str, text: str, refusals: set[str]) -> None:
    """They agree as far as that does not depend on the memory that is free when the session begins."""
    with Loop([build(program)]) as target:
        found = DWriting(target.pid).preview(text)
        assert not differences(target.pid)
        done = traced(f"{text} {RUNS}", pid=target.pid)
        matched = DWriting(target.pid).check(text).probes
        assert not leftovers(target.pid)
    refused = {str(each.probe): [name for name, _ in each.reasons] for each in found.refused}
    assert refused.keys() == done.refused.keys()
    assert {name for names in refused.values() for name in names} == refusals
    for probe, names in refused.items():
        assert all(name in done.refused[probe] for name in names), (names, done.refused[probe])
    assert found.probes + found.own >= matched - text.count("tick-") > 0 and sum(dict(found.tactics).values()) > 0


def test_a_preview_of_a_bad_program_is_refused(loop: Loop) -> None:
    for text, slug in (("BEGIN { x", "d-program-refused"), ("pid$target:nope:: { }", "d-program-refused")):
        with pytest.raises(UsageError) as error:
            DWriting(loop.pid).preview(text)
        assert error.value.slug == slug


def test_a_preview_of_too_many_places_is_refused(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gilk.engines.dtrace.previewing.MOST_PLACES", 3)
    with pytest.raises(UsageError) as error:
        DWriting(loop.pid).preview("pid$target:a.out::entry { }")
    assert error.value.slug == "too-many-probes"


def test_writing_and_previewing_do_not_attach_to_the_process(loop: Loop) -> None:
    writing = DWriting(loop.pid)
    writing.words("pid$target::mal", 15)
    writing.check("pid$target:::entry { }")
    writing.preview("pid$target:a.out::entry { }")
    assert "TracerPid:\t0\n" in Path(f"/proc/{loop.pid}/status").read_text()
    assert not differences(loop.pid) and not leftovers(loop.pid)
    with pytest.raises(TargetError) as error:
        look(loop.pid).sample()
    assert error.value.slug == "only-looked-at"


def test_completion_works_without_a_process() -> None:
    writing = DWriting()
    assert "timestamp" in offered(writing, "BEGIN { trace(times")
    assert not writing.check("BEGIN { }").problems
    assert [each.slug for each in writing.check("pid1:::entry").problems] == ["no-such-probe"]
    with pytest.raises(TargetError) as error:
        DWriting(1 << 30)
    assert error.value.slug == "no-such-process"
