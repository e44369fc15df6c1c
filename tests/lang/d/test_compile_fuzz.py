# SPDX-License-Identifier: LGPL-2.1-or-later
"""The checker accepts or refuses any text, and every accepted text becomes C that compiles."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import Options
from gilk.lang.d.unit import unit
from gilk.lang.syntax.source import Source
from gilk.toolchain.compilers import compiler, flags
from gilk.toolchain.dprogram import FLAGS
from tests.lang.d.programs import HERE
from tests.seldom import seldom

TEXTS = [path.read_text() for path in sorted((*HERE.glob("run/*.d"), *HERE.glob("scripts/*.d")))]
GIVEN = Macros({"target": 1234, "pid": 99}, ("script", "5", "1000", "some text"), True, True)
STRICT = [f"-Werror={name}" for name in ("implicit-function-declaration", "int-conversion")]
STRICT += ["-Werror=incompatible-pointer-types", "-Werror=uninitialized"]

PRELUDE = """
enum color { RED, GREEN }; struct later;
struct s { int a; char text[8]; unsigned int bits : 5; int more : 7; long row[3]; struct s *next;
    struct later *later; };
union u { long number; char bytes[8]; };
typedef struct s s_t;
int i; uint8_t byte; int64_t large; uint64_t huge; string text; char full[5]; int m[2][3]; string names[2]; float f;
s_t st; union u un; s_t *p; char *cp; void *vp; enum color c; int a[int]; string b[string, int]; s_t k[int]; double d;
self int si; self string ss; self s_t sst; self int sa[int]; this int ti; this string ts; this s_t tst; this char tc[4];
inline int ONE = 1; inline string NAME = "name"; inline int NOW = i * 2;
struct out { int x; string s; struct out *o; char t[4]; };
translator struct out < int n > { x = n + 1; s = n ? "a" : "b"; };
translator struct out < struct s *P > { x = P->a; s = P->text; t = P->text; o = xlate <struct out *> (P->bits); };
translator struct out < s_t V > { x = V.more; };
s_t *PT; char *PC;
inline struct out *OUT = xlate <struct out *> (i++); inline int ADD[int a, int b] = a + b * i;
inline struct out FD[int fd] = xlate <struct out> (fd); inline string TEXT[string a] = strjoin(a, a);
BEGIN { @n = count(); @q["k"] = quantize(1); @l[1, 2] = lquantize(1, 0, 10); @s = sum(1); }
"""
_LEAVES = """
0 1 -1 2147483648 1UL 0xffffffffffffffff 'c' "s" "" i byte large huge text full m names st un p cp vp c a b k f d
self->si self->ss self->sst self->sa this->ti this->ts this->tst this->tc ONE NAME NOW RED NULL pid arg0 timestamp
probename execname @n @q NEW self->NEW this->NEW st.a st.text st.bits st.more st.row p->a p->next p->bits un.number un
un.bytes k[1] k[i].a k[i].bits k[2].row[i] a[i] a[1] b["x",1] m[i][1] m[1] names[i] self->sst.text self->sa[i] tid
this->tst.bits this->tc[i] st.row[i] *p *cp &p->a &p->bits args[1] uregs[R_RIP] uregs nonesuch k[i] p->later args[i]
PT->a PT->bits PT->row[i] PT->text[1] *PC OUT OUT->x OUT->s OUT->o ADD FD FD[1].x FD[i].s
"""
_PREFIXES = "- ! ~ + * & ++ -- sizeof stringof (int) (char) (uint64_t) (string) (s_t*) (void) (float) (s_t)"
_OPERATORS = "+ - * / % & | ^ << >> < > <= >= == != && || ^^ , = += -= *= /= %= &= |= ^= <<= >>="
_MARKS = "{ } ( ) [ ] ; , . -> ?"
LEAVES, PREFIXES, OPERATORS, MARKS = (text.split() for text in (_LEAVES, _PREFIXES, _OPERATORS, _MARKS))
SHAPES = (
    """
({})++|({})--|a[{}]|k[{}].a|b[{},{}]|m[{}][{}]|{}.text|{}->next|{}[{}]|({} ? {} : {})|strlen({})|strjoin({},{})
substr({},{})|substr({},{},{})|index({},{})|strchr({},{})|strstr({},{})|strtok({},{})|basename({})|lltostr({})|
lltostr({},{})|strtoll({})|copyin({},{})|copyinstr({})|alloca({})|htons({})|inet_ntoa({})|speculation()|rand()
toupper({})|bcopy({},{},{})|copyinto({},{},{})|progenyof({})|offsetof(s_t,{})|sizeof({})|count()|printf("%d",{})
NEW[{},{}]|self->NEW[{}]|this->tc[{}]|getmajor({})|cleanpath({})|xlate<s_t>({})|usym({})|rindex({},{},{})
xlate<struct out>({}).x|xlate<struct out *>({})->s|xlate<struct out *>({})|ADD[{},{}]|FD[{}].x|TEXT[{}]
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
STATEMENTS = (
    """
{};|{};|{};|trace({});|printf("%d %s",{},{});|printf("%s",{});|printf("%d %x",{},{});|tracemem({},8);|tracemem({},8,{});
@n=count();|@s=sum({});|@q[{}]=quantize({});|@l[{},{}]=lquantize({},0,10);|@NEW[{},{}]=max({});|exit({});|{}?{}:{};
{}?trace({}):printf("%d",{});|if({}){{trace({});}}else{{{};}}|if({}) @NEW[{}]=avg({}); {};|speculate({}); trace({});
trunc(@n,{});|normalize(@q,{});|commit({});|discard({});|usym({});|clear(@n);|printa(@n);|system("%d",{});|umod({});
@NEW[usym({}),{}]=stddev({});|setopt("quiet");|denormalize(@n);|@NEW=llquantize({},10,0,3,10,{});|freopen("%s",{});
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def code(text: str) -> str | None:
    """The C of a program; None if it is refused."""
    try:
        program = compile_programs([ProgramText("script", Source("test", text))], GIVEN, Options()).program
    except DoesNotCompile as refused:
        assert refused.wrong.diagnostic.message
        return None
    numbers = tuple(clause.number for clause in program.clauses)
    return unit(program, {}, [numbers], [("dtrace", "", "", "BEGIN")]).text


def compiles(directory: Path, texts: Sequence[str]) -> None:
    paths = [directory / f"{number}.c" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    command = [*compiler(), *flags(), *FLAGS, *STRICT, "-w", "-fsyntax-only", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:5000]


def expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.15:
        return chance.choice(LEAVES)
    match chance.randrange(4):
        case 0:
            return f"{chance.choice(PREFIXES)} ({expression(chance, depth - 1)})"
        case 1:
            return f"({expression(chance, depth - 1)}) {chance.choice(OPERATORS)} ({expression(chance, depth - 1)})"
    return filled(chance, chance.choice(SHAPES), depth - 1)


def filled(chance: random.Random, shape: str, depth: int) -> str:
    some = [
        f"({each})" if "," in each else each for each in (expression(chance, depth) for _ in range(shape.count("{}")))
    ]
    return shape.format(*some)


def statement(chance: random.Random, depth: int) -> str:
    return filled(chance, chance.choice(STATEMENTS), depth)


@pytest.mark.parametrize(("seed", "clauses"), seldom([(0, 200), (0, 800), (1, 800)], 1))
def test_any_accepted_clause_compiles(tmp_path: Path, seed: int, clauses: int) -> None:
    """The accepted clauses are compiled together."""
    chance, accepted = random.Random(seed), [PRELUDE]
    for number in range(clauses):
        predicate = f"/{expression(chance, 2)}/" if chance.random() < 0.1 else ""
        body = " ".join(statement(chance, chance.randrange(3)) for _ in range(chance.randrange(1, 3)))
        clause = f"BEGIN {predicate} {{ {body} }}".replace("NEW", f"new{number}")
        if code(PRELUDE + clause) is not None:
            accepted.append(clause)
    assert len(accepted) > clauses // 16
    together = code("\n".join(accepted))
    assert together is not None
    compiles(tmp_path, [together])


def damaged(chance: random.Random, text: str) -> str:
    words = text.split(" ")
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(words))
        match chance.randrange(4):
            case 0:
                del words[at : at + chance.randrange(1, 3)]
            case 1:
                words.insert(at, chance.choice([*LEAVES, *OPERATORS, *PREFIXES]))
            case 2:
                words[at] = chance.choice(chance.choice(TEXTS).split(" "))
            case 3:
                other = chance.randrange(len(words))
                words[at], words[other] = words[other], words[at]
        words = words or [""]
    return " ".join(words)


def test_any_damaged_program_is_refused_or_compiles(tmp_path: Path) -> None:
    chance, accepted = random.Random(1), []
    for _ in range(500):
        made = code(damaged(chance, chance.choice(TEXTS)))
        if made is not None:
            accepted.append(made)
    assert len(accepted) > 20
    compiles(tmp_path, accepted[:25])


@settings(max_examples=30)
@given(st.lists(st.sampled_from([*LEAVES, *PREFIXES, *OPERATORS, *MARKS]), max_size=30))
def test_any_tokens_are_refused_or_compile(words: list[str]) -> None:
    code(f"{PRELUDE}BEGIN {{ {' '.join(words)} }}")
    code(f"int {' '.join(words)}")
