# SPDX-License-Identifier: LGPL-2.1-or-later
"""Variables of functions in ``gilk dtrace -lv`` and in completions; the text of the program tells which there are."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gilk.api.d_writing import DWriting
from gilk.engines.dtrace import readable_locals
from gilk.engines.dtrace.compiled import DoesNotCompile
from gilk.image.dwarf.entries import Entries
from gilk.lang.d.probes import Description
from gilk.lang.d.reliance import ReadableLocal
from gilk.targets.looking import look
from tests.behaviour.harness import differences, leftovers, run_gilk
from tests.programs.build import compile_text
from tests.providers.sessions import traced
from tests.providers.test_local_names import SOURCE, inlined_at, line

WAITING = r"""
#include <stdio.h>
struct item { int n; struct item *next; };
static volatile int sink;
__attribute__((noinline)) int first(struct item *it, int same) { int k = it->n + same; sink = k; return k; }
__attribute__((noinline)) int second(long same) { sink = (int)same; return sink; }
int main(void)
{
	struct item one = { 1, NULL };
	puts("ready"); fflush(stdout);
	return first(&one, getchar()) + second(3) > 9;
}
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("plain"), "plain", SOURCE, "-O0")


@pytest.fixture(scope="module")
def optimized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_text(tmp_path_factory.mktemp("optimized"), "optimized", SOURCE, "-O2")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The number of a process that waits for its input to end."""
    path, pipe = compile_text(tmp_path_factory.mktemp("waiting"), "waiting", WAITING, "-O0"), subprocess.PIPE
    with subprocess.Popen([path], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


def listed(program: Path, *descriptions: str) -> list[dict[str, Any]]:
    words = [word for each in descriptions for word in ("-n", each)]
    done = run_gilk("dtrace", "-lv", "--json", *words, "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    return [found for found in map(json.loads, done.stdout.splitlines()) if found["type"] == "probe"]


def shown(found: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["type"] for each in found["locals"]}


def test_the_variables_at_a_line_are_listed_with_the_types_of_the_source(plain: Path) -> None:
    (found,) = listed(plain, line(plain, "sink = r + own"))
    assert shown(found) == {
        "local`x": "int", "local`s": "struct small", "local`d": "double", "local`k": "int", "local`text": "char [8]",
        "local`calls": "int", "local`r": "int",
    }  # fmt: skip
    inner = listed(plain, line(plain, "touch(&x)"))
    assert {shown(each)["local`k"] for each in inner} == {"long int"}
    assert not any("local`r" in shown(each) for each in inner), "it is declared further down"


def test_entries_have_the_parameters_and_the_variables_of_inlined_functions_have_the_functions_name(
    optimized: Path,
) -> None:
    (entry, inlined) = listed(
        optimized, "pid$target:a.out:work:entry", f"pid$target:a.out:work:{inlined_at(optimized)}"
    )
    assert shown(entry) == {"local`x": "int"}, "the struct and the double are in other registers"
    assert entry["arguments"] == ["int", "struct small", "double"]
    assert shown(inlined)["local`helper`deep"] == "int"


def test_all_that_is_listed_can_be_read_and_nothing_else(optimized: Path) -> None:
    """A clause at each instruction reads what is listed there; what is listed elsewhere alone is refused."""
    rows = {each["name"]: set(shown(each)) for each in listed(optimized, "pid$target:a.out:work:")}
    given = {at: names for at, names in rows.items() if names}
    read = "".join(
        f"pid$target:a.out:work:{at} {{ {''.join(f'this->n = sizeof ({name});' for name in sorted(names))} }}\n"
        for at, names in given.items()
    )
    done = traced(read, optimized)
    assert not [why for why in done.refused.values() if "local`" in why] and len(given) > 20
    everything = set().union(*given.values())
    for at in list(given)[::9]:
        for name in sorted(everything - rows[at]):
            with pytest.raises(DoesNotCompile) as error:
                traced(f"pid$target:a.out:work:{at} {{ this->n = sizeof ({name}); }}", optimized)
            assert str(error.value.wrong.diagnostic.tag).startswith("D_LOCAL_")


def test_code_without_debug_information_has_no_variables(tmp_path: Path) -> None:
    path = compile_text(tmp_path, "bare", SOURCE, "-g0")
    (found,) = listed(path, "pid$target:a.out:work:entry")
    assert found["locals"] == []
    done = run_gilk("dtrace", "-lv", "-n", "pid$target:a.out:work:entry", "-c", path)
    assert "Argument Types" in done.stdout and "Variables" not in done.stdout


def test_the_text_has_a_line_for_each_variable(plain: Path) -> None:
    done = run_gilk("dtrace", "-lv", "-n", "pid$target:a.out:in_memory:entry", "-c", plain)
    assert done.stdout.endswith("\n\tVariables of the Function\n\t\tlocal`same: int\n\n")


def test_variables_of_several_places_tell_at_how_many_they_are(waiting: int) -> None:
    process = look(waiting)
    entries = [Description(f"pid{waiting}", "a.out", function, "entry") for function in ("first", "second")]
    assert readable_locals.readable_at(process, entries, 9) == (
        ReadableLocal("", "it", "struct item *", 1, 2),
        ReadableLocal("", "same", "int", 1, 2),
        ReadableLocal("", "same", "long int", 1, 2),
    )
    assert len(readable_locals.readable_at(process, entries, 1)) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pid$target:a.out:first:entry { trace(local`", {"it", "same"}),
        ("pid$target:a.out:first:return { trace(1+local`", {"it", "same", "k"}),
        ("pid$target:a.out:first:return /local`", {"it", "same", "k"}),
        ("pid$target:a.out:first:entry, pid$target:a.out:second:entry { trace(local`", {"it", "same"}),
        ("pid$target:a.out:first:entry { trace(local`it->", {"n", "next"}),
        ("pid$target:a.out:first:entry { trace(local`it->next->", {"n", "next"}),
        ("pid$target:a.out:first:entry { trace(local`other`", set()),
        ("BEGIN { trace(local`", set()),
        ("pid$target:a.out:no_such_thing:entry { trace(local`", set()),
    ],
)
def test_completions_are_the_variables_that_can_be_read(waiting: int, text: str, words: set[str]) -> None:
    assert {word.text for word in DWriting(waiting).words(text, len(text)).words} == words
    assert (differences(waiting), leftovers(waiting)) == ([], [])


def test_completion_offers_the_word_that_begins_variables(waiting: int) -> None:
    text = "pid$target:a.out:first:entry { trace(loc"
    found = {word.text: word for word in DWriting(waiting).words(text, len(text)).words}
    assert found["local"].goes_on
    assert "local" not in {word.text for word in DWriting(None).words(text, len(text)).words}


def test_the_debug_information_of_an_image_is_read_once(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that names types, symbols, arguments and variables of functions reads the entries of an image once."""
    made = Counter[str]()
    begin = Entries.__init__

    def counted(entries: Entries, *given: Any) -> None:
        begin(entries, *given)
        made[str(entries.sections.path)] += 1

    monkeypatch.setattr(Entries, "__init__", counted)
    clause = 'printf("%d %d %d %d\\n", args[0], sizeof (struct small), `sink, local`x)'
    fresh = plain.with_name("fresh")
    fresh.write_bytes(plain.read_bytes())
    fresh.chmod(0o755)
    assert traced(f"pid$target:a.out:work:entry {{ {clause}; }}", fresh).errors == ""
    assert made[str(fresh)] == 1
