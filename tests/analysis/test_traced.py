# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every instruction that a program executes, by single steps, lies in a known block, and every transfer is a known
edge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.analysis.model import End, Function
from gilk.arch import decode as x86
from gilk.image.elf import load
from tests.analysis.conftest import LIBC, Compile
from tests.oracle import Edge, step_edges
from tests.seldom import seldom

_LIMIT = 1700  # seconds: python3's start takes tens of millions of instructions
_LEAVES = (x86.RETURN, x86.CALL, x86.CALL_INDIRECT)


class Checker:
    """Checks a trace against the instructions of the functions in an image that it runs through."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._heads: dict[int, dict[int, tuple[int, int]]] = {}

    def problems(self, edges: Sequence[tuple[int, int]]) -> list[str]:
        """Sentences about instructions and transfers that should not have happened."""
        addresses = sorted({address for edge in edges for address in edge})
        found = [text for address in addresses if (text := self._instruction(address))]
        return found + [text for source, to in edges if (text := self._transfer(source, to))]

    def heads(self, function: Function) -> dict[int, tuple[int, int]]:
        """Address of each instruction in a block -> (index of its block, its flow control)."""
        known = self._heads.get(function.start)
        if known is None:
            known = self._heads[function.start] = {}
            for block in function.blocks:
                code = function.code[block.start - function.start : block.end - function.start]
                known.update((i.ip, (block.index, int(i.flow_control))) for i in x86.decode(code, block.start))
        return known

    def _instruction(self, address: int) -> str:
        span = self.analysis.image.span_at(address)
        if span is None or address in self.heads(self.analysis.function(span)):
            return ""
        return f"{address:#x} ran, in {span.name}, and is no instruction of a block"

    def _transfer(self, source: int, to: int) -> str:
        ours, theirs = self.analysis.image.span_at(source), self.analysis.image.span_at(to)
        if ours is None or theirs is None or source == to:
            return ""
        function = self.analysis.function(ours)
        index, flow = self.heads(function).get(source, (-1, 0))
        if index < 0 or flow in _LEAVES:
            return ""
        block = function.blocks[index]
        if source < block.terminator and source < to < block.end:
            return ""
        if to in block.successors or to == block.target or block.how is End.INDIRECT:
            return ""
        landed = self.analysis.function(theirs).block_at(to)
        leaves = block.target or block.how is End.TAIL_INDIRECT
        if ours != theirs and leaves and landed is not None and landed.start == to:
            return ""
        return f"{source:#x} in {ours.name} led to {to:#x}: no edge of block {block.start:#x}"


def check(command: Sequence[str | Path], images: Sequence[Path]) -> None:
    edges = step_edges(command, start="entry", timeout=_LIMIT)
    ran = 0
    for path in images:
        mine = [(edge.source, edge.to) for edge in edges if _within(edge, path.resolve().name)]
        ran += len(mine)
        assert Checker(Analysis(load(path))).problems(mine) == []
    assert ran > 1000


def _within(edge: Edge, name: str) -> bool:
    return edge.image == edge.to_image == name


PROGRAM = """
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
static jmp_buf place;
struct Guard { int &n; ~Guard() { n += 3; } };
[[gnu::noinline]] static int select(int i) {
    switch (i % 9) {
    case 0: return 5; case 1: throw std::runtime_error("one"); case 2: return i * 7; case 3: throw i;
    case 4: longjmp(place, i); case 5: return select(i + 1); case 6: return std::to_string(i).size();
    case 7: return abs(-i); default: return -1;
    }
}
int main() {
    volatile int sum = 0;
    int guarded = 0;
    for (volatile int i = 0; i < 20; i++) {
        if (setjmp(place)) continue;
        try { Guard guard{guarded}; sum += select(i); }
        catch (const std::exception &e) { sum += e.what()[0]; }
        catch (int n) { sum -= n; }
    }
    std::printf("%d %d\\n", sum, guarded);
    std::exit(0);
}
"""


@pytest.mark.parametrize("flags", seldom([["-O2"], ["-O0"]], 1), ids="".join)
def test_exceptions_and_long_jumps_stay_within_the_graph(compiled: Compile, flags: list[str]) -> None:
    program = compiled(PROGRAM, "-static-libstdc++", "-static-libgcc", *flags, language="c++").image.path
    check([program], [program, LIBC])


@pytest.mark.stress
def test_gzip_stays_within_the_graph(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"{n * n}\n" for n in range(40)))
    check(["/bin/gzip", "-c", text], [Path("/bin/gzip"), LIBC])


SCRIPT = """
for i in 1 2; do x=$((i*2)); echo "${x//2/3}"; done
case foo in f*) printf "%s %x" a 255;; esac
a=(1 2); echo ${#a}; [[ abc =~ a.c ]] && echo y; read z < /etc/passwd; echo ${z%%:*} ${z^^}
"""
LONG: dict[str, list[str]] = {
    "/bin/bash": ["-c", SCRIPT],
    "/usr/bin/perl": ["-e", 'my %h; $h{$_}++ for split /,/, "a,b,a"; printf "%s %d", $_, $h{$_} for sort keys %h;'],
    "/usr/bin/sqlite3": [":memory:", "create table t(a); insert into t values(1); select sum(a), upper('x') from t"],
    "/usr/bin/python3": ["-S", "-c", "import re; print(re.sub('a+', 'b', 'caat'), '%.3f' % 3.14)"],
    "/usr/bin/gdb": ["-nx", "-batch", "-ex", "p 1+2"],
}


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", LONG)
def test_large_programs_stay_within_the_graph(program: str) -> None:
    path = Path(program)
    if path.name == "python3" and not path.exists():
        pytest.skip("the distribution's Python is not installed")
    check([path, *LONG[program]], [path, LIBC])
