# SPDX-License-Identifier: LGPL-2.1-or-later
"""The documentation is right: its commands run, every error has its paragraph, every command its page.

A code block that opens with ```console test is run. Each line that begins with `$ ` is a command, and the lines after
it are its output, in which `...` stands for anything. It must exit with 0; `exit=N` after `test` says otherwise for the
block; with `needs=debugreg` the block is left out where the machine has none. With `seldom` at the end, only `make
stress` runs the block, together with the others of its page. The blocks of one page run in order, in one directory,
with the repository's `examples` beside them.

A block that opens with ```console session shows real output: its commands run in one shell, `&` and `$!` included, and
must print the same but for numbers, and for the number of rows of a histogram or a table.
"""

from __future__ import annotations

import ast
import difflib
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gilk import errors
from gilk.cli.main import COMMANDS, cli
from gilk.targets import trials
from tests.behaviour.harness import run_gilk

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"^```console test(?: exit=(?P<status>\d+))?(?: needs=(?P<needs>debugreg))?(?P<seldom> seldom)?\n"
    r"(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Example:
    command: str
    output: str
    status: int


def examples(page: Path, every: bool = False) -> Iterator[Example]:
    """The examples of a page; all of them, or without those of blocks that are marked ``seldom``."""
    for block in BLOCK.finditer(page.read_text()):
        if block["seldom"] and not every:
            continue
        if block["needs"] and not trials.free_debug_registers()[0]:
            continue
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = 1
            while lines[count - 1].endswith("\\"):
                count += 1
            yield Example("\n".join(lines[:count]), "\n".join(lines[count:]), int(block["status"] or 0))


#: A command of gilk's alone: outside of quotes it has nothing that is for the shell.
ALONE = re.compile(r"gilk(\s+([\w./:=,%@+-]|'[^']*')+)*\s*")


def ended(command: str, place: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in ``place``."""
    if ALONE.fullmatch(command):
        return run_gilk(*shlex.split(command)[1:], cwd=place, env=environment, timeout=600)
    words = ["bash", "-c", command]
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=600)


def matches(expected: str, actual: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, actual.strip(), re.DOTALL) is not None


def printed_as_shown(shown: Iterable[Example], place: Path, environment: dict[str, str]) -> None:
    if (ROOT / "examples").is_dir():
        (place / "examples").symlink_to(ROOT / "examples")
    for example in shown:
        done = ended(example.command, place, environment)
        assert done.returncode == example.status, f"$ {example.command}\n{done.stdout}{done.stderr}"
        output = done.stdout + done.stderr
        difference = "\n".join(difflib.ndiff(example.output.splitlines(), output.splitlines()))
        assert matches(example.output, output), f"$ {example.command}\n{difference}"


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES if list(examples(p))])
def test_examples_of_a_page_print_the_shown_output(page: Path, tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    printed_as_shown(examples(page), tmp_path, gilk_on_path)


LONG = [page for page in PAGES if any(block["seldom"] for block in BLOCK.finditer(page.read_text()))]


@pytest.mark.stress
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in LONG])
def test_all_examples_of_a_page_print_the_shown_output(
    page: Path, tmp_path: Path, gilk_on_path: dict[str, str]
) -> None:
    printed_as_shown(examples(page, every=True), tmp_path, gilk_on_path)


SESSION = re.compile(r"^```console session\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"\d+(\.\d+)?(ns|us|ms|s\b)?")
#: A note that appears now and then: the program may be in a call when gilk attaches to it, or at the end.
NOW_AND_THEN = re.compile(r"^note: [1-3] timed calls are not whole: .*\n", re.MULTILINE)


def likeness(output: str) -> list[str]:
    """The parts of an output that stay the same when a measurement is repeated."""
    steady = NOW_AND_THEN.sub("", output)
    lines = [re.sub(r"\s+", " ", VARYING.sub("N", line)).strip() for line in steady.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("[N,", "["))]
    return [line for n, line in enumerate(kept) if n == 0 or line != kept[n - 1]]


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES if SESSION.search(p.read_text())]
)
def test_sessions_of_a_page_print_similar_output(page: Path, tmp_path: Path, gilk_on_path: dict[str, str]) -> None:
    """They are those of somebody who has no cache yet."""
    environment = {**gilk_on_path, "GILK_CACHE": str(tmp_path / "cache")}
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in SESSION.finditer(page.read_text()):
        parts = [part.split("\n", 1) for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]]
        script = "".join(f"{command}\necho '<end of command>'\n" for command, _ in parts) + "kill $(jobs -p) 2>&-; true"
        with (tmp_path / "output").open("w+") as output:  # programs in the background would hold a pipe open
            both = {"stdout": output, "stderr": output}
            subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, timeout=600, **both)
            output.seek(0)
            printed = output.read().split("<end of command>\n")
        for (command, expected), actual in zip(parts, printed, strict=False):
            assert likeness(actual) == likeness(expected), f"$ {command}\n{actual}"


def test_negative_control_different_output_does_not_match() -> None:
    assert matches("a ... c", "a b\nb c")
    assert not matches("a ... c", "a b d")
    assert not matches("a.c", "abc")


ERROR_CLASSES = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.GilkError)
}


#: The errors of the window, and which of their arguments is the slug.
ERRORS_OF_THE_WINDOW = {"ToldError": 0, "Turned": 1}
#: An error that a script of the window makes.
IN_SCRIPTS = re.compile(r'\bslug: "([^"]*)"')


def slugs_in(path: Path) -> Iterator[tuple[int, str | None]]:
    """(line, slug) of every error that `path` makes; None if the slug is not written out in that file.

    A function may take the slug as a parameter: then the slugs are those that its callers in the same file pass. An
    error that is made of another one has the slug of that one.
    """
    tree = ast.parse(path.read_text())
    for function in (None, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))):
        for call in calls_in(tree if function is None else function):
            name = name_of(call.func)
            slug = argument(call, ERRORS_OF_THE_WINDOW.get(name, 0), "slug")
            if name not in ERROR_CLASSES | ERRORS_OF_THE_WINDOW.keys() or slug is None or is_passed_on(slug):
                continue
            if function is None and isinstance(slug, ast.Constant):
                yield call.lineno, slug.value
            elif function is not None and isinstance(slug, ast.Name):
                yield from slugs_passed(tree, function, slug.id)
            elif function is not None and not isinstance(slug, ast.Constant):
                yield call.lineno, None


def is_passed_on(slug: ast.expr) -> bool:
    return isinstance(slug, ast.Attribute) and slug.attr == "slug"


def slugs_passed(tree: ast.AST, function: ast.FunctionDef, parameter: str) -> Iterator[tuple[int, str | None]]:
    """(line, slug) for what callers pass to `function` as its `parameter`; None for an argument that is no literal."""
    names = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
    calls = [call for call in calls_in(tree) if name_of(call.func) == function.name]
    if parameter not in names or not calls:
        yield function.lineno, None
        return
    for call in calls:
        given = argument(call, names.index(parameter), parameter)
        yield call.lineno, given.value if isinstance(given, ast.Constant) else None


def calls_in(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise TargetError('a-b', 'x')", ["a-b"]),
        ("raise TargetError(slug='a', message='x')", ["a"]),
        ("def f(slug):\n raise UsageError(slug, 'x')\nf('one')\nf(slug='two')", ["one", "two"]),
        ("def f(slug):\n raise UsageError(slug, 'x')", [None]),
        ("def f(x):\n raise UsageError(f'{x}', 'x')", [None]),
        ("raise OtherError('no')", []),
        ("x = Turned(403, 'a', 'x')\nraise ToldError('b', 'x')", ["a", "b"]),
        ("def f(error):\n raise ToldError(error.slug, 'x')", []),
    ],
)
def test_slugs_are_found_in_the_source(text: str, expected: list[str | None], tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(text)
    assert [slug for _, slug in slugs_in(source)] == expected


@cache
def raised() -> dict[str, str]:
    """The slugs that gilk raises, with the place where each is raised."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "src" / "gilk").rglob("*.py")):
        for line, slug in slugs_in(path):
            where = f"{path.relative_to(ROOT)}:{line}"
            assert slug is not None, f"{where}: write the slug out, so that it can be found"
            found.setdefault(slug, where)
    for path in sorted((ROOT / "src" / "gilk" / "web" / "assets").glob("*.js")):
        found |= {slug: path.name for slug in IN_SCRIPTS.findall(path.read_text()) if slug not in found}
    return found


def documented() -> list[str]:
    return re.findall(r"^## (.+)$", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)


def test_every_error_has_a_paragraph() -> None:
    missing = {slug: where for slug, where in raised().items() if slug not in documented()}
    assert not missing, f"docs/errors.md lacks {missing}"


def test_every_paragraph_has_an_error() -> None:
    assert not set(documented()) - set(raised()), "docs/errors.md describes errors that nothing raises"


def test_errors_are_in_alphabetical_order() -> None:
    assert documented() == sorted(documented())


def test_the_example_of_an_error_exists() -> None:
    shown = re.search(r"`gilk: [^`]*\((.+)\)`", (ROOT / "docs" / "errors.md").read_text())
    assert shown and shown[1] in raised()


def test_slugs_are_well_formed_and_described_once() -> None:
    assert [slug for slug in raised() if not SLUG.fullmatch(slug)] == []
    assert len(documented()) == len(set(documented()))


def available() -> list[str]:
    import click

    return cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("name", available())
def test_every_command_has_a_page_that_lists_its_options(name: str) -> None:
    import click

    page = (ROOT / "docs" / "cli" / f"{name}.md").read_text()
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert page.startswith(f"# gilk {name}\n")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert any(option in page for option in parameter.opts), f"docs/cli/{name}.md lacks {parameter.opts}"


def test_every_page_has_a_command() -> None:
    assert {page.stem for page in (ROOT / "docs" / "cli").glob("*.md")} <= {*COMMANDS, "grammar"}


LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_a_row_of_a_table_is_a_line(page: Path) -> None:
    """No row of a table has run together with another."""
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        if "|---|" in line:
            assert re.fullmatch(r"\|(-+\|)+", line), f"{page.name}:{number + 1}: the rows of a table have run together"
            assert lines[number - 1].startswith("|"), f"{page.name}:{number}: a table without a head"


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page} links to {target}"


ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
CODE = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them; a heading that comes twice has one here."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_those_of_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# `dtrace`\n## Names of C++ and Rust\n```\n# no heading\n```\n### fork, exec (2)\n")
    assert anchors(page) == {"dtrace", "names-of-c-and-rust", "fork-exec-2"}


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_anchors_of_links_exist(page: Path) -> None:
    for target, anchor in ANCHOR.findall(page.read_text()):
        other = page.parent / target if target else page
        assert anchor in anchors(other), f"{page} links to {target}#{anchor}"


TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES])
def test_tests_that_a_page_names_exist(page: Path) -> None:
    for file, name in TEST.findall(page.read_text()):
        if "NAME" in file:  # a placeholder for any name
            continue
        assert (ROOT / file).is_file(), f"{page} names {file}"
        assert not name or name in names_in(ROOT / file), f"{page} names {file}::{name}"


def test_every_hostile_partner_is_on_the_page_of_security() -> None:
    """Every test file about a hostile partner is on the page, in the form in which the check above finds it."""
    named = {file for file, _ in TEST.findall((ROOT / "docs" / "security.md").read_text())}
    assert named >= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "security").glob("test_*.py")}
