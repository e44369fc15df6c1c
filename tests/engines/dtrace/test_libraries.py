# SPDX-License-Identifier: LGPL-2.1-or-later
"""Libraries of D: which are read, in what order, and which of their names a program sees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk.engines.dtrace import libraries
from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.errors import UsageError
from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import Nothing, Symbol
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source


def written(directory: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (directory / f"{name}.d").write_text(text)
    return [str(directory)]


def compiled(program: str, directories: list[str]) -> tree.Program:
    found = libraries.wanted([program], directories, None)
    text = ProgramText("script", Source("test", program))
    return compile_programs([text], Macros({}, ("test",)), Options(), None, found).program


def tag(program: str, directories: list[str]) -> str:
    with pytest.raises(DoesNotCompile) as caught:
        compiled(program, directories)
    return caught.value.wrong.diagnostic.tag


def test_a_library_comes_after_those_it_depends_on(tmp_path: Path) -> None:
    where = written(
        tmp_path,
        a="#pragma D depends_on library b.d\ninline int A = B + 1;",
        b="#pragma D depends_on library c.d\ninline int B = sizeof (c_t);",
        c="typedef struct c { int x; int y; } c_t;",
    )
    assert [Path(each.name).name for each in libraries.wanted([""], where, None)] == ["c.d", "b.d", "a.d"]
    compiled("c_t one; BEGIN { one.x = A; trace(sizeof (c_t)); trace((c_t *)arg0); }", where)


def test_clauses_of_a_library_are_checked_and_never_run(tmp_path: Path) -> None:
    where = written(tmp_path, a='inline int A = 1; BEGIN { system("true"); @ = count(); }')
    program = compiled("END { trace(A); }", where)
    assert [clause.probes for clause in program.clauses] == [("END",)] and program.destructive is None
    written(tmp_path, a="BEGIN { nonesuch(); }")
    assert tag("END { }", where) == "D_FUNC_UNDEF"


def test_a_missing_dependency_of_a_library_is_an_error(tmp_path: Path) -> None:
    where = written(tmp_path, a="#pragma D depends_on library none.d\n")
    assert tag("BEGIN { }", where) == "D_PRAGMA_DEPEND"


@pytest.mark.parametrize("what", ["module nonesuch", "provider nonesuch"])
def test_a_library_about_a_missing_module_is_left_out(tmp_path: Path, what: str) -> None:
    where = written(
        tmp_path,
        a="#pragma D depends_on library b.d\ninline int A = B;",
        b=f"inline int B = nonesuch`b;\n#pragma D depends_on {what}\n",
        c="inline int C = 7;",
    )
    found = libraries.wanted([""], where, None)
    text = ProgramText("script", Source("test", "BEGIN { trace(C); }"))
    assert compile_programs([text], Macros({}, ("test",)), Options(), None, found).left_out == {
        "b.d": what,
        "a.d": "library b.d",
    }
    assert tag("BEGIN { trace(A); }", where) == "D_IDENT_UNDEF"


def test_thousands_of_libraries_may_form_a_chain_of_dependencies(tmp_path: Path) -> None:
    text = "#pragma D depends_on library l{}.d\n"
    where = written(tmp_path, **{f"l{n}": text.format(n + 1) for n in range(2000)}, l2000="")
    found = [Path(each.name).stem for each in libraries.wanted([""], where, None)]
    assert found == [f"l{n}" for n in range(2000, -1, -1)]
    (tmp_path / "l2000.d").write_text(text.format(1000))
    with pytest.raises(UsageError) as caught:
        libraries.wanted([""], where, None)
    assert caught.value.slug == "d-library-cycle" and "l1000.d" in caught.value.message


def test_libraries_that_depend_on_each_other_are_refused(tmp_path: Path) -> None:
    where = written(tmp_path, a="#pragma D depends_on library b.d\n", b="#pragma D depends_on library a.d\n")
    with pytest.raises(UsageError) as caught:
        libraries.wanted([""], where, None)
    assert caught.value.slug == "d-library-cycle"


def test_a_missing_library_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        libraries.wanted([""], [str(tmp_path / "none")], None)
    assert caught.value.slug == "no-d-library"


def test_an_error_in_a_library_names_the_library(tmp_path: Path) -> None:
    where = written(tmp_path, a="inline int A = 1;\ninline int B = nothing;\n")
    with pytest.raises(DoesNotCompile) as caught:
        compiled("BEGIN { }", where)
    wrong = caught.value.wrong
    assert (wrong.file, wrong.line, wrong.diagnostic.tag) == (str(tmp_path / "a.d"), 2, "D_IDENT_UNDEF")


def test_a_program_cannot_change_attributes_of_library_names(tmp_path: Path) -> None:
    where = written(tmp_path, a="inline int A = 1;\n#pragma D attributes Stable/Stable/Common A\n")
    assert tag("#pragma D attributes Stable/Stable/Common A\nBEGIN { }", where) == "D_PRAGMA_SCOPE"
    assert tag("inline int A = 2;", where) == "D_DECL_IDRED"


def test_gilks_own_libraries_are_read_only_for_programs_that_use_their_names(tmp_path: Path) -> None:
    assert libraries.wanted(["BEGIN { trace(pid); } struct x { int a; };"], [], None) == []
    found = libraries.wanted(["BEGIN { trace(curpsinfo->pr_pid); }"], [], None)
    assert [Path(each.name).name for each in found] == ["process.d", "process_types.d", "procfs.d"]
    where = written(tmp_path, a="#pragma D depends_on library procfs.d\ninline pid_t P = curpsinfo->pr_ppid;")
    compiled("BEGIN { trace(P); }", where)


def test_all_own_libraries_compile() -> None:
    for path in libraries.OWN.glob("*.d"):
        compiled(f"BEGIN {{ }} /* {' '.join(libraries._defined(path.read_text()))} */", [])


def test_the_library_about_the_process_agrees_with_proc() -> None:
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")[:-1]
    text = libraries._facts(os.getpid(), None)
    assert f"process_argc = {len(words)}" in text and f"process_session = {os.getsid(0)}" in text
    alone = libraries._facts(None, None)
    assert f"process_argc = pid == {os.getpid()} ? {len(words)} : 0;" in alone


class Kernel(Nothing):
    """A kernel with these symbols."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def symbol(self, module: str, name: str) -> Symbol | None:
        return Symbol(0, None, False) if name in self._names else None


def test_a_kernel_without_memory_nodes_has_one() -> None:
    for world, value in ((Kernel("numa_node"), "`numa_node"), (Kernel("jiffies"), "0")):
        found = libraries.wanted(["BEGIN { trace(lgrp); }"], (), None, libraries.OF_KERNELS, world)
        assert f"inline int own_node = {value};\n" in [each.text for each in found]
        assert [Path(each.name).name for each in found].index("nodes.d") == 0
