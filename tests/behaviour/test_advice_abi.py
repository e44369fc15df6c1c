# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random signatures: advice gets, proceed passes and the caller receives exactly what a direct call has.

The system's compilers decide how each function is called. The program compares byte by byte: the function leaves its
arguments in `seen`; the advice looks at its own, proceeds with the original arguments, then with others, and changes
the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gilk.session.advising import advice
from tests.behaviour.advised import COMPILERS, build, jumps, rounds, session
from tests.seldom import seldom

TYPES = """
typedef struct { char a; } one;
typedef struct { int a; float b; } mixed;
typedef struct { double a, b; } doubles;
typedef struct { long a; double b; } both;
typedef struct { float a, b, c; } floats;
typedef struct { long a, b, c; } large;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong_;
typedef void *pointer;
"""
SCALARS = ("char", "uchar", "short", "ushort", "int", "unsigned", "long", "ulong_", "pointer", "float", "double", "_Bool",
           "__int128")  # fmt: skip
RECORDS = ("one", "mixed", "doubles", "both", "floats", "large")


@dataclass(frozen=True)
class Shape:
    """A function's signature: the types of its parameters and of its result."""

    parameters: tuple[str, ...]
    result: str

    def declared(self, name: str) -> str:
        return f"{self.result} {name}({self.taken})"

    @property
    def taken(self) -> str:
        """The declarations of the parameters."""
        return ", ".join(f"{kind} p{n}" for n, kind in enumerate(self.parameters)) or "void"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"p{n}" for n in range(len(self.parameters)))


_JUMPS = Shape(("long", "double"), "long")  # the last call of this one, at least, is a jump


def shapes() -> st.SearchStrategy[Shape]:
    kinds = st.sampled_from(SCALARS + RECORDS)
    return st.builds(Shape, st.lists(kinds, max_size=12).map(tuple), kinds)


def value(kind: str, seed: int) -> str:
    """A C expression of the type ``kind``."""
    match kind:
        case "one":
            return f"(one){{{seed % 100}}}"
        case "mixed":
            return f"(mixed){{{seed}, {seed}.25f}}"
        case "doubles" | "floats":
            return f"({kind}){{{seed}.5, {seed + 1}.5}}"
        case "both":
            return f"(both){{{seed}, {seed}.75}}"
        case "large":
            return f"(large){{{seed}, {seed + 1}, {seed + 2}}}"
        case "pointer":
            return f"(pointer){seed * 4097}L"
        case "_Bool":
            return str(seed % 2)
        case "__int128":
            return f"((__int128){seed} << 70 | {seed})"
        case "char" | "uchar":
            return f"({kind}){seed % 100}"
        case "float" | "double":
            return f"({kind}){seed}.5"
        case _:
            return f"({kind}){seed * 3}"


def keep(shape: Shape) -> str:
    """Statements that copy all arguments, without padding, to `seen`."""
    return " ".join(f"KEEP({each});" for each in shape.names)


def program(chosen: list[Shape], jumping: bool = False) -> str:
    """A program whose `printed` shows everything that a call leaves and returns. A result is computed from the
    arguments that were seen. With ``jumping``, each function ends in a jump to another one with the same arguments."""
    parts = [TYPES, "#include <string.h>", "unsigned char seen[4096]; unsigned long used;",
             "#define KEEP(p) (memcpy(seen + used, &(p), sizeof(p)), used += sizeof(p))",
             "NOINLINE unsigned long sum(void) { unsigned long r = 7; for (unsigned long n = 0; n < used; n++)"
             " r = r * 31 + seen[n]; return r; }"]  # fmt: skip
    calls, first = [], "g" if jumping else "f"
    for n, shape in enumerate(chosen):
        result = f"{shape.result} r; memset(&r, 0, sizeof r); unsigned char *b = (void *)&r; b[0] = sum() & 1;"
        if shape.result in ("float", "double"):
            result = f"{shape.result} r = sum() % 1000;"
        parts.append(
            f'NOINLINE {shape.declared(f"{first}{n}")} {{ __asm__ volatile("nop"); {keep(shape)} {result} __asm__ volatile(""); return r; }}'
        )
        if jumping:
            passed = f"g{n}({', '.join(shape.names)})"
            parts.append(f'NOINLINE {shape.declared(f"f{n}")} {{ __asm__ volatile("nop"); return {passed}; }}')
        given_ = ", ".join(value(kind, 10 * n + at + 1) for at, kind in enumerate(shape.parameters))
        calls.append(f"used = 0; {{ {shape.result} r = f{n}({given_}); unsigned long s = sum(); used = 0; KEEP(r);"
                     f' printf("%lx,%lx ", s, sum()); }}')  # fmt: skip
    return "\n".join((*parts, "static void one_round(void) {", *calls, 'printf("\\n"); }'))


def counted(shape: Shape, n: int) -> str:
    """Advice that proceeds with other arguments, then with the original ones; only the latter call's traces remain
    in `seen`."""
    others = ", ".join(value(kind, 900 + at) for at, kind in enumerate(shape.parameters))
    with_others = f"used = 0; proceed({others}); unsigned long b = sum();" if others else "unsigned long b = 1;"
    return f"""
extern unsigned char seen[]; extern unsigned long used; unsigned long sum(void);
#define KEEP(p) (__builtin_memcpy(seen + used, &(p), sizeof(p)), used += sizeof(p))
{shape.declared(f"advice{n}")}
{{
	used = 0;
	{keep(shape)}
	unsigned long a = sum();
	{with_others}
	used = 0;
	{shape.result} r = proceed();
	unsigned long c = sum();
	used = 0;
	{"proceed(" + ", ".join(shape.names) + ");" if shape.names else "proceed();"}
	if (a != c || c != sum() || (used > 1 && a == b)) __builtin_trap();
	return r;
}}"""


_SEEN = """
extern unsigned char seen[]; extern unsigned long used; unsigned long sum(void);
#define KEEP(p) (__builtin_memcpy(seen + used, &(p), sizeof(p)), used += sizeof(p))
"""


def replaced(shape: Shape, n: int) -> str:
    """Advice in place that does all that the function does."""
    result = f"{shape.result} r; __builtin_memset(&r, 0, sizeof r); *(unsigned char *)&r = sum() & 1;"
    if shape.result in ("float", "double"):
        result = f"{shape.result} r = sum() % 1000;"
    return f"{_SEEN} {shape.declared(f'advice{n}')} {{ {keep(shape)} {result} return r; }}"


def observed(shape: Shape, n: int) -> str:
    """Advice before calls, which ends the program if it is given other arguments than the function's."""
    given_ = "".join(
        f"{{ {kind} v = {value(kind, 10 * n + at + 1)}; KEEP(v); }}" for at, kind in enumerate(shape.parameters)
    )
    last = "unsigned long a = sum(); used = 0;"
    body = f"{keep(shape)} {last} {given_} if (a != sum()) __builtin_trap(); used = 0;"
    return f"{_SEEN} void advice{n}({shape.taken}) {{ {body} }}"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("level", seldom(["-O2", "-O0", "-O1", "-O3"], 1))
@pytest.mark.parametrize("when", ["before", "inplace"])
def test_advice_that_never_calls_the_function_has_its_arguments_and_result(
    tmp_path_factory: pytest.TempPathFactory, compiler: str, level: str, when: str
) -> None:
    @settings(max_examples=1, deadline=None, phases=(Phase.generate,), database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(shapes(), min_size=6, max_size=9))
    def check(chosen: list[Shape]) -> None:
        made = observed if when == "before" else replaced
        built = build(tmp_path_factory.mktemp("abi"), program(chosen), level, "-fno-inline", "-w", compiler=compiler)
        with rounds(built) as running:
            plain = running.ask()
            with session(running.pid) as one:
                for n, shape in enumerate(chosen):
                    of = shape.declared(f"f{n}")
                    one.advise(f"f{n}:entry", advice(made(shape, n), f"advice{n}", of, when, TYPES))
                assert running.ask() == plain
            assert running.ask() == plain

    check()


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("level", seldom(["-O2", "-O0", "-O1", "-O3"], 1))
@pytest.mark.parametrize("jumping", [False, True], ids=["returning", "jumping"])
def test_calls_of_random_signatures_are_the_same_with_and_without_advice(
    tmp_path_factory: pytest.TempPathFactory, compiler: str, level: str, jumping: bool
) -> None:
    @settings(max_examples=1, deadline=None, phases=(Phase.generate,), database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(shapes(), min_size=4, max_size=6))
    def check(chosen: list[Shape]) -> None:
        place = tmp_path_factory.mktemp("abi")
        sibling = "-foptimize-sibling-calls" if jumping else "-fno-optimize-sibling-calls"
        options = (level, sibling, "-fno-inline", "-w")
        built = build(place, program([*chosen, _JUMPS], jumping), *options, compiler=compiler)
        assert level not in ("-O2", "-O3") or jumps(built, f"f{len(chosen)}", f"g{len(chosen)}") is jumping
        with rounds(built) as running:
            plain = running.ask()
            with session(running.pid) as one:
                for n, shape in enumerate([*chosen, _JUMPS]):
                    made = advice(counted(shape, n), f"advice{n}", shape.declared(f"f{n}"), "inplace", TYPES)
                    one.advise(f"f{n}:entry", made)
                assert running.ask() == plain
            assert running.ask() == plain

    check()
