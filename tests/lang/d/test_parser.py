# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parser: whole scripts, one tree of each kind, and the tag of every mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gilk.lang.d import ast, items, parser, unparse
from gilk.lang.d.depth import HEIGHT, NESTING, children
from gilk.lang.d.macros import Macros
from gilk.lang.syntax.source import Source
from tests.lang.d.programs import HERE, SCRIPTS, parsed, plain, program

ERRORS = sorted(HERE.glob("syntax/err.*.d"))
LONG_STRUCT = "invalid type declaration: long and long long may only be used with integer or floating-point type"
ARGUMENTS = Macros({"pid": 1}, ("script", "1", "not used", "18446744073709551616"))


def expression(text: str) -> str:
    """An expression with all its brackets."""
    clause = program(f"BEGIN {{ {text}; }}").items[-1]
    assert isinstance(clause, items.Clause) and clause.body is not None
    (statement,) = clause.body.statements
    assert isinstance(statement, items.ExpressionStatement)
    return unparse.expression(statement.value)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_parsing_and_writing_a_script_gives_the_same_tree(path: Path) -> None:
    tree = program(path.read_text())
    assert tree.items
    assert plain(program(unparse.program(tree)).items) == plain(tree.items)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_span_of_a_node_contains_those_of_its_parts(path: Path) -> None:
    nodes: list[ast.Node] = [*program(path.read_text()).items]
    for node in nodes:
        for child in children(node):
            assert node.span.start <= child.span.start <= child.span.end <= node.span.end, (node, child)
            nodes.append(child)


@pytest.mark.parametrize("path", ERRORS, ids=lambda path: path.name[4:-2])
def test_a_mistake_is_refused_with_its_tag(path: Path) -> None:
    found = parsed(path.read_text(), ARGUMENTS)
    assert found.program is None
    assert found.diagnostics[0].tag == path.name.split(".")[1]
    assert found.diagnostics[0].message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("BEGIN\n{ exit(0)); }", 2, "extra ) in input stream"),
        ("BEGIN\n{ x = arg0 + 1]; }", 2, "extra ] in input stream"),
        ("BEGIN { }\n}", 2, 'syntax error near "}"'),
        ("int a}\n;", 1, "extra } in input stream"),
        ("BEGIN {\n", 2, "syntax error near end of input"),
        ("BEGIN { x = (1 + ); }", 1, 'syntax error near ")"'),
        ("BEGIN\n/(arg0/\n{ }", 3, "closing ) expected in predicate before /"),
        ("BEGIN\n/args[0 /\n{ }", 3, "closing ] expected in predicate before /"),
        ("long struct a\n{ int x; };", 2, LONG_STRUCT),
        ("BEGIN { x = (1 / ; }", 1, 'syntax error near "/"'),
        ("BEGIN { }\n/* open\n\n", 4, "end-of-file encountered before matching */"),
        ("BEGIN { }\n#pragma D option quiet", 2, "end-of-file encountered before end of control line"),
        ('# 30 "test"\n\nBEGIN\nexit', 31, "expected predicate and/or actions following probe description"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_text(text: str, line: int, message: str) -> None:
    found = parsed(text)
    (diagnostic,) = found.diagnostics
    assert diagnostic.message == message
    assert found.begun is not None and found.begun.mistake == diagnostic
    assert found.begun.place(diagnostic.span) == ("test", line)


def test_every_tag_of_the_parser_has_a_test_program() -> None:
    names = "control cursor definitions depth expressions lexer literals macros parser specifiers types_syntax"
    sources = [(Path(parser.__file__).parent / f"{name}.py").read_text() for name in names.split()]
    given = {tag for source in sources for tag in re.findall(r"Tag\.(D_\w+)", source)}
    assert given == {path.name.split(".")[1] for path in ERRORS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "a - b - c"),
        ("a - (b - c)", "a - (b - c)"),
        ("a || b ^^ c && d", "a || (b ^^ (c && d))"),
        ("a | b ^ c & d == e < f << g + h", "a | (b ^ (c & (d == (e < (f << (g + h))))))"),
        ("a ? b : c ? d : e", "a ? b : c ? d : e"),
        ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
        ("a = b += c", "a = b += c"),
        ("a ? b = 1, 2 : 3", "a ? ((b = 1), 2) : 3"),
        ("*p++", "* p++"),
        ("-x->y[1].z", "- x->y[1].z"),
        ("!a == b", "(! a) == b"),
        ("(int)a / b", "((int) a) / b"),
        ("(int)(a / b)", "(int) (a / b)"),
        ("sizeof (int) * 2", "sizeof (int) * 2"),
        ("sizeof a * 2", "(sizeof a) * 2"),
        ("(a) + b", "a + b"),
        ("(a) b", "(a) b"),
        ("(a *)b", "(a *) b"),
        ("(a * b)", "a * b"),
        ("(a)(b)", "(a) b"),
        ("(a)[b]", "a[b]"),
        ("(k`t *)b", "(k`t *) b"),
        ("(size_t)-1", "(size_t) - 1"),
        ("(struct s **)a", "(struct s **) a"),
        ("(int (*)(int))a", "(int (*)(int)) a"),
        ("@[1, 2]", "@_[1, 2]"),
        ("@a[1][2]", "@a[1][2]"),
        ("k`x", "k`x"),
        ("a`b`c", "a`b`c"),
        ("`x", "`x"),
        ("self->if + this->string", "self->if + this->string"),
        ('"a" "b\\n"', '"ab\\012"'),
        ("$target + $1 - $$1 $3", '(1234 + 5) - "5some text"'),
        ("a /b", "a / b"),
        ("stringof a->b + 1", "(stringof a->b) + 1"),
        ("xlate <int *> (a)->b", "xlate <int *> (a)->b"),
        ("offsetof(struct s, string)", "offsetof(struct s, string)"),
        ("a.b`c", "a.b`c"),
    ],
)
def test_operators_group_by_precedence(text: str, expected: str) -> None:
    assert expression(text) == expected


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("int x;", []),
        ("int *x;", ["Pointer"]),
        ("int x[string];", ["KeyedBy"]),
        ("int *x[string, int];", ["KeyedBy", "Pointer"]),
        ("int x[N];", ["ArrayOf"]),
        ("int *(*x[3])(void);", ["ArrayOf", "Pointer", "FunctionOf", "Pointer"]),
        ("int (*x)[4];", ["Pointer", "ArrayOf"]),
        ("int **const x;", ["Pointer", "Pointer"]),
    ],
)
def test_the_shape_of_a_declarator_is_read_from_the_name_outwards(text: str, shape: list[str]) -> None:
    (item,) = program(text).items
    assert isinstance(item, items.Declaration)
    assert [type(one).__name__ for one in item.declarators[0].shape] == shape
    assert item.declarators[0].name == "x"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("int* { }", None),
        ("foo_t *x;", [items.Declaration]),
        ("foo*x, bar { }", [items.Clause]),
        ("self x; this foo y; const z;", [items.Declaration] * 3),
        ("BEGIN { } int x; END { }", [items.Clause, items.Declaration, items.Clause]),
        ("#pragma D option quiet\nBEGIN { \n#pragma D option x=y\n }", [items.Pragma, items.Clause, items.Pragma]),
        ("BEGIN", [items.Clause]),
        ("", []),
        ("typedef int read; read x; int read; read { }", [items.Declaration] * 3 + [items.Clause]),
    ],
)
def test_declarations_and_probe_descriptions_are_distinguished(text: str, kinds: list[type] | None) -> None:
    found = parsed(text)
    assert (None if found.program is None else [type(item) for item in found.program.items]) == kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int*x {}", items.Clause), ("int* {}", items.Clause), ("char[ac] {}", items.Clause),
        ("int x;", items.Declaration), ("self int x;", items.Declaration), ("foo_t x;", items.Declaration),
    ],
)  # fmt: skip
def test_with_pspec_an_ambiguous_text_is_a_description(text: str, kind: type) -> None:
    found = parser.parse(Source("test", text), pspec=True).program, program(f"#pragma D option pspec\n{text}")
    assert [[type(item) for item in each.items if type(item) is not items.Pragma] for each in found if each] == [
        [kind]
    ] * 2
    without = parser.parse(Source("test", text)).program
    assert kind is items.Declaration or without is None


def test_a_description_stands_alone_at_the_end_of_what_is_no_script() -> None:
    for text in ("BEGIN", "END { } tick-1s", "END { } int*x, y\n"):
        ends = [parser.parse(Source("test", text), pspec=True, script=script) for script in (False, True)]
        assert ends[0].program is not None and ends[1].program is None
        assert [wrong.message for wrong in ends[1].diagnostics] == [
            "expected predicate and/or actions following probe description"
        ]


def test_descriptions_are_without_blanks_and_macros() -> None:
    clause = program("pid$target:a.out : main:entry,\n syscall::$3:entry, 12 { }".replace("$3", "$2")).items[0]
    assert isinstance(clause, items.Clause)
    assert [one.text for one in clause.probes] == ["pid1234:a.out:main:entry", "syscall::1000:entry", "12"]


def test_pragmas_are_split_into_words() -> None:
    text = '#pragma D option bufsize=4m\n#pragma D option quiet /* ? */\n#pragma D binding "1.0" x\n#pragma weak x\n#\n'
    found = [(one.kind, one.words) for one in program(text).items if isinstance(one, items.Pragma)]
    assert found == [("option", ("bufsize", "4m")), ("option", ("quiet",)), ("binding", ("1.0", "x"))]


def test_branches_of_if_are_blocks() -> None:
    clause = program("BEGIN { if (a) b; else if (c) { d; } else ; }").items[0]
    assert isinstance(clause, items.Clause)
    assert unparse.item(clause) == "BEGIN\n{ if (a) { b; } else if (c) { d; } else { } }"


def test_places_are_those_in_the_file_before_preprocessing() -> None:
    tree = program('int a;\n# 7 "b.h" 1\nint b;\n\nint c;\n#line 3\nint d;')
    assert [tree.place(one.span) for one in tree.items] == [("test", 1), ("b.h", 7), ("b.h", 9), ("b.h", 3)]


def test_spans_cover_the_text_of_their_nodes() -> None:
    text = "BEGIN /a && b/ { x = f(1 + 2, y); }"
    clause = program(text).items[0]
    assert isinstance(clause, items.Clause) and clause.predicate and clause.body
    assert text[clause.span.start : clause.span.end] == text
    assert text[clause.predicate.span.start : clause.predicate.span.end] == "a && b"
    value = clause.body.statements[0].span
    assert text[value.start : value.end] == "x = f(1 + 2, y)"


def test_with_argref_unused_arguments_are_accepted() -> None:
    assert parsed("BEGIN", Macros(arguments=("s", "1", "2"), argref=True)).program is not None
    assert [one.tag for one in parsed("BEGIN", Macros(arguments=("s", "1", "2"))).diagnostics] == ["D_MACRO_UNUSED"] * 2


def test_with_defaultargs_missing_arguments_are_zero_or_empty() -> None:
    tree = program("BEGIN { trace($1); trace($$2); }", Macros(default=True))
    assert unparse.item(tree.items[0]) == 'BEGIN\n{ trace(0); trace(""); }'


@pytest.mark.parametrize("depth", [NESTING - 5, 10_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [("(", ")"), ("f(", ")"), ("a[", "]"), ("x ? ", " : 1"), ("(int)((", "))"), ("@[", "]"), ("sizeof (", ")")],
)
def test_brackets_nest_up_to_the_limit(before: str, after: str, depth: int) -> None:
    if before == "(int)((":
        depth //= 2
    found = parsed(f"BEGIN {{ {before * depth}1{after * depth}; }}")
    assert (found.program is not None) == (depth < NESTING)
    assert found.program or "deeply" in found.diagnostics[0].message


@pytest.mark.parametrize("length", [HEIGHT - 5, 100_000])
@pytest.mark.parametrize("link", ["a + ", "a, ", "a = ", "a ? b : ", "- ", "(int)", "*", "!", "sizeof ", "a ^^ "])
def test_chains_of_operators_are_as_long_as_the_limit(link: str, length: int) -> None:
    found = parsed(f"BEGIN {{ {link * length}1; }}")
    assert (found.program is not None) == (length < HEIGHT)
    assert found.program or "deeply" in found.diagnostics[0].message


@pytest.mark.parametrize("text", ["{", "if (1) ", "if (1) x; else ", "if (1) { } else "])
def test_statements_nest_up_to_the_limit(text: str) -> None:
    assert not parsed(f"BEGIN {{ {text * 10_000}").program
    assert not parsed(f"BEGIN {{ {text * 10_000} ; {'}' * text.count('{') * 10_000} }}").program


@pytest.mark.parametrize("text", ["struct { ", "int (", "int (*f)(", "int x[int ", "int (*(*"])
def test_types_nest_up_to_the_limit(text: str) -> None:
    found = parsed(text * 10_000)
    assert not found.program
