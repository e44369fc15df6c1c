# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sentences, of comments as well, headings and names of tests have a subject: none begins with what, who, whose or of,
unless it asks. Public class names are unique.

Names that were given twice before this was a rule are listed below. The list may only shrink: a change removes the
names that it makes unique, and adds none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

import pytest

from tests.parsed import nodes, tree

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gilk"
MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

#: Public classes that share their name with another one.
NAMES_ALLOWED = """
    Aggregate Argument Assign Binary Call Clause Comma Conditional Function If Inline Integer Member Memory
    Place Places Pointer Symbol Target Text Translator Unary Variable Xlate
"""

OPENING = re.compile(r"[*_(\"“]*(What|Who|Whom|Whose|Of)\b")
END_OF_SENTENCE = re.compile(r"(?<=[.!?:;])[*_)\"”]*\s+")
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+", re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def openings(text: str) -> list[str]:
    """The sentences of plain text that begin without a subject, in the order of the text."""
    sentences = END_OF_SENTENCE.split(" ".join(text.split()))
    return [each for each in sentences if OPENING.match(each) and not each.rstrip('*_)"”').endswith("?")]


def prose(markdown: str) -> Iterator[str]:
    """The paragraphs, list items and table cells of a page, without code, headings and the addresses of links."""
    text = HEADING.sub("\n", FENCE.sub("\n", markdown))
    text = LINK.sub(r"\1", CODE.sub("`x`", text))
    text = re.sub(r"^\|.*\|$", lambda row: "\n" + row[0].replace("|", "\n\n") + "\n", text, flags=re.MULTILINE)
    yield from re.split(r"\n\s*\n", ITEM.sub("\n\n", text))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of the docstrings of a module, its classes and its functions."""
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def comments(path: Path) -> Iterator[str]:
    """The comments of a file; lines of Python that follow one another are one comment."""
    text = path.read_text()
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        lines = {each.start[0]: each.string.lstrip("#: ") for each in tokens if each.type == tokenize.COMMENT}
        starts = [number for number in lines if number - 1 not in lines]
        for start in starts:
            yield " ".join(lines[number] for number in takewhile(lines.__contains__, count(start)))
    else:
        for found in re.findall(r"/\*(.*?)\*/", text, re.DOTALL):
            yield " ".join(line.strip().lstrip("* ") for line in found.splitlines()).strip()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Of the units. The rest follows.", ["Of the units."]),
        ("The end. What is left is counted.", ["What is left is counted."]),
        ("What is left? The rest.", []),
        ("Whatever comes is kept, and offers go out.", []),
        ("Returns None. (Who asks is told.)", ["(Who asks is told.)"]),
    ],
)
def test_openings_are_found(text: str, wrong: list[str]) -> None:
    assert openings(text) == wrong


def test_code_and_headings_are_not_checked_as_prose() -> None:
    page = "# What it is\n\nOne.\n- Two, `Of x`\n\n| a | Of three |\n|---|---|\n\n```\nWho\n```\n[Of links](x.md)\n"
    assert [wrong for part in prose(page) for wrong in openings(part)] == ["Of three", "Of links"]


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_sentences_of_a_page_have_a_subject(page: Path) -> None:
    wrong = [sentence for part in prose(page.read_text()) for sentence in openings(part)]
    assert not wrong, "say who does what: " + "\n".join(wrong)


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_headings_of_a_page_name_their_subject(page: Path) -> None:
    headings = [found.lstrip("# ") for found in HEADING.findall(FENCE.sub("\n", page.read_text()))]
    assert not [wrong for heading in headings for wrong in openings(heading)], "name the subject in the field's terms"


def test_names_of_tests_have_a_subject() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and re.match(r"test_(what|who|whom|whose|of)_", node.name)
    }
    assert not found, "say what is tested, so that a colleague understands a failing test by its name"


def test_sentences_of_docstrings_have_a_subject() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {sentence}"
        for path in MODULES
        for line, text in docstrings(path)
        for sentence in openings(text)
    ]
    assert not wrong, "say who does what: " + "\n".join(wrong)


def test_sentences_of_comments_have_a_subject() -> None:
    files = (path for path in SOURCE.rglob("*") if path.suffix in (".py", ".c", ".h", ".S", ".js"))
    wrong = [
        f"{path.relative_to(ROOT)}: {each}" for path in files for text in comments(path) for each in openings(text)
    ]
    assert not wrong, "say who does what: " + "\n".join(wrong)


def test_every_module_has_a_docstring() -> None:
    without = [str(path.relative_to(ROOT)) for path in MODULES if not ast.get_docstring(tree(path))]
    assert not without, "say what these do"


def test_a_public_class_name_is_unique() -> None:
    names = Counter(
        node.name
        for path in MODULES
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    shared = {name for name, count in names.items() if count > 1}
    allowed = set(NAMES_ALLOWED.split())
    assert shared <= allowed, "give one of each two another name"
    assert shared == allowed, "a name that one class has comes off the list"


MAP = (ROOT / "ARCHITECTURE.md").read_text().split("## Code map")[1].split("\n## ")[0]
#: Pages that say where files are.
GUIDES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
SOURCE_FILE = re.compile(r"(?<![\w./*-])(?:[a-z_\d]+/)*[a-z_\d]+\.(?:py|[chS])(?![\w(])")


def test_the_map_names_every_package() -> None:
    shown = {
        name for row in re.findall(r"^\| (`.*?) \|", MAP, re.MULTILINE) for name in re.findall(r"`([a-z/]+)/`", row)
    }
    packages = {path.parent.relative_to(SOURCE).as_posix() for path in MODULES if path.name == "__init__.py"} - {"."}
    native = {f"native/{path.name}" for path in (SOURCE / "native").iterdir() if path.is_dir() and path.name[0] != "_"}
    small = {name for name in packages if name.count("/") > 1 or name == "image/dwarf"} | {"render/d", "render/export"}
    small |= {"lang/to_c", "lang/to_kernel", "render/layout"}
    assert shown - packages - native == set(), "the map of ARCHITECTURE.md names what is not there"
    assert packages - small - shown == set() and native <= shown, "the map of ARCHITECTURE.md lacks a room"


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in GUIDES])
def test_files_that_a_guide_names_exist(page: Path) -> None:
    """A name without a folder may belong to any file in src."""
    known = {path.name for path in SOURCE.rglob("*.*")}
    for name in SOURCE_FILE.findall(re.sub(r"`tests/[^`]*`", "", page.read_text())):
        there = (SOURCE / name).exists() or (ROOT / name).exists() if "/" in name else name in known
        assert there or ("/" not in name and (ROOT / "tests" / name).exists()), f"{page.name} names {name}"
