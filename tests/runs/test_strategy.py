# SPDX-License-Identifier: LGPL-2.1-or-later
"""The choices of strategies, compared with a disassembler and with a program run one instruction at a time."""

from __future__ import annotations

import random
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import gilk
from gilk.analysis.model import Block, End, Function
from gilk.errors import GilkError, UsageError
from gilk.image.elf import load
from gilk.runs.experiment.edges import Passed, told
from gilk.runs.strategy import Chosen, choose, expand, find, parse
from gilk.session.request import Builtin, CFunction, Request
from gilk.splice.points import Point
from gilk.targets.image import analyse
from tests.behaviour.harness import Ran, run
from tests.oracle import Edge, step, step_edges
from tests.programs.build import build
from tests.seldom import seldom

ALL = [("jumptable", "5"), ("shortblocks", "5"), ("recursion", "2"), ("setjmp", "3")]
PROGRAMS = seldom(ALL, 2)


@pytest.mark.parametrize(
    ("text", "name", "instrument"),
    [
        ("main=@path", "path", Builtin.STAMP),
        ("libc:str*=@calls:count", "calls", Builtin.COUNT),
        ("operator==@time", "time", Builtin.TIME),
        ("std::vector<int>::at=@edges", "edges", Builtin.COUNT),
        ("f=@path:x/y.c:go", "path", CFunction(Path("x/y.c"), "go")),
    ],
)
def test_strategies_that_are_parsed(text: str, name: str, instrument: object) -> None:
    chosen = parse(text)
    assert isinstance(chosen, Chosen)
    assert (chosen.strategy.name, chosen.instrument) == (name, instrument)


def test_text_without_a_strategy_is_parsed_as_points() -> None:
    assert isinstance(parse("main:entry=count"), Request)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("main=@paths", "no-such-strategy"),
        ("main=@nothing.py:f", "no-such-strategy"),
        ("main=@", "bad-strategy"),
        ("main=@path:", "bad-strategy"),
        ("main:entry=@path", "bad-strategy"),
        ("main=@coverage:stamp", "bad-strategy"),
        ("main=@path:time", "bad-strategy"),
        ("main=@path:nothing", "bad-instrument"),
        ("=@path", "bad-point"),
    ],
)
def test_malformed_strategies_are_refused(text: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.slug == slug


# On programs.


def under(name: str, argument: str, strategy: str) -> tuple[Path, Ran]:
    program = build(name)
    ran = run([f"*=@{strategy}"], [program, argument])
    assert ran.status == 0, ran.stderr
    assert ran.report["restored"] is True
    return program, ran


@cache
def functions(program: Path) -> list[Function]:
    return [function for function in analyse(load(program)).functions() if function.blocks]


@cache
def listing(program: Path) -> dict[int, str]:
    """objdump's instructions by address."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True).stdout
    return {int(m[1], 16): m[2] for m in re.finditer(r"^\s*([0-9a-f]+):\s+(.*)$", text, re.MULTILINE)}


@cache
def executed(program: Path, argument: str) -> dict[int, int]:
    """How often each instruction of the program ran."""
    done = step([program, argument], {program.name: list(listing(program))})
    assert done.status == 0
    return {address: count for (_, address), count in done.counts.items()}


def differing(ran: Ran, expected: dict[str, int]) -> dict[str, int]:
    """The points whose count differs from the expected one. A refused point has none."""
    counts = ran.report["counts"]
    refused = {each["point"] for each in ran.report["refused_points"]}
    assert counts.keys() | refused == expected.keys()
    assert not counts.keys() & refused
    return {point: counts[point] for point in counts if counts[point] != expected[point]}


def blocks_of(program: Path) -> dict[str, int]:
    """The address of each block, by the name of its point. Asserts that no two functions share a name."""
    found = {f"{program.name}:{f.name}:@{b.index}:pre": b.start for f in functions(program) for b in f.blocks}
    assert len(found) == sum(len(f.blocks) for f in functions(program))
    return found


@pytest.mark.parametrize(("name", "argument"), seldom(ALL, 1))
def test_the_strategy_path_is_at_every_block(name: str, argument: str) -> None:
    program, ran = under(name, argument, "path:count")
    runs = executed(program, argument)
    assert differing(ran, {point: runs[address] for point, address in blocks_of(program).items()}) == {}


@pytest.mark.parametrize(("name", "argument"), PROGRAMS)
def test_coverage_counts_exactly_the_blocks_that_were_reached(name: str, argument: str) -> None:
    program, ran = under(name, argument, "coverage")
    runs = executed(program, argument)
    ran.report["counts"] = {point: min(count, 1) for point, count in ran.report["counts"].items()}
    assert differing(ran, {point: min(runs[address], 1) for point, address in blocks_of(program).items()}) == {}


@pytest.mark.parametrize(("name", "argument"), seldom([*ALL[1:], ALL[0]], 1))
def test_counted_edges_are_those_that_were_taken(name: str, argument: str) -> None:
    program, ran = under(name, argument, "edges")
    taken = step_edges([program, argument])
    expected, possible = set(), set()
    for function in functions(program):
        for block in function.blocks:
            last = analyse(load(program)).steps(function, block)[-1].instruction.ip
            for successor in block.successors:
                to = next(b for b in function.blocks if b.start == successor)
                label = f"{program.name}:{function.name}:@{block.index}->@{to.index}"
                possible.add(label)
                if Edge(program.name, last, program.name, successor) in taken:
                    expected.add(label)
    counts = {point: n for point, n in ran.report["counts"].items() if "->" in point}
    # An instruction after a call is reached from the callee, which the stepper's pairs do not show.
    by_return = {label for label in counts.keys() - expected if counts[label] and after_call(program, label)}
    assert {label for label, count in counts.items() if count} - by_return == expected & counts.keys()
    assert counts.keys() <= possible
    # In a threaded interpreter every operation may follow every other: sums cannot separate those edges.
    assert len(counts) > 0.75 * len(possible), possible - counts.keys()


def after_call(program: Path, label: str) -> bool:
    match = re.fullmatch(r"[^:]+:(.+):@(\d+)->@\d+", label)
    assert match
    function = next(f for f in functions(program) if f.name == match[1])
    last = analyse(load(program)).steps(function, function.blocks[int(match[2])])[-1]
    return str(last.instruction).startswith("call")


@pytest.mark.parametrize(("name", "argument"), PROGRAMS)
def test_counted_call_sites_are_those_that_objdump_shows(name: str, argument: str) -> None:
    program, ran = under(name, argument, "calls:count")
    code, runs = listing(program), executed(program, argument)
    sites = {address for address, text in code.items() if re.match(r"(notrack |bnd )?call", text)}
    starts = {f"{program.name}:{f.name}": f.start for f in functions(program)}
    counted: dict[int, int] = {}
    for point, count in ran.report["counts"].items():
        owner, _, offset = point.rpartition(":")
        counted[starts[owner] + int(offset, 16)] = count
    assert {site: counted.get(site, 0) for site in sites} == {site: runs[site] for site in sites}
    tails = counted.keys() - sites
    assert all(re.match(r"(notrack |bnd )?jmp", code[site]) and counted[site] == runs[site] for site in tails)


@pytest.mark.stress
def test_the_strategy_time_has_every_call() -> None:
    program, ran = under("recursion", "2", "time")
    runs, latency = executed(program, "2"), ran.report["latency"]
    timed = [f for f in functions(program) if not f.loops and not f.whole and f.name in latency]
    assert {f.name: runs[f.start] for f in timed} == {f.name: latency[f.name]["count"] for f in timed}
    assert len(timed) > 3


# Strategies of one's own.

OWN = """
def ends(function):
    for block in function.blocks:
        if not block.block.successors:
            yield block.post
ends.instrument = "count"
def entries(function):
    return [function.entry]
def broken(function):
    return 1 / 0
def odd(function):
    return ["main"]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


def test_a_strategy_may_come_from_a_python_file(own: Path) -> None:
    program = build("jumptable")
    ran = run([f"*=@{own / 'own.py'}:entries"], [program, "5"])
    starts = {f"{program.name}:{f.name}:entry": f.start for f in functions(program)}
    runs = executed(program, "5")
    assert differing(ran, {point: runs[start] for point, start in starts.items()}) == {}


def test_a_strategy_file_is_found_in_the_directory_and_names_its_instrument(own: Path) -> None:
    assert find("own.py:ends", own).instrument == Builtin.COUNT
    assert choose("main", "own.py:ends", "stamp", own).instrument == Builtin.STAMP


@pytest.mark.parametrize("name", ["broken", "odd"])
def test_an_error_in_a_strategy_names_it(own: Path, name: str) -> None:
    chosen = parse(f"main=@{own / 'own.py'}:{name}")
    with gilk.launch([str(build("jumptable")), "1"]) as target, pytest.raises(GilkError) as caught:
        list(expand(target.process, chosen))
    assert caught.value.slug == "bad-strategy"
    assert name in caught.value.message


@pytest.mark.parametrize("text", ["def f(:\n", "import nothing_of_that_name\n"])
def test_a_file_that_is_not_python_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(UsageError, match=r"bad\.py cannot be imported"):
        find("bad.py:f", tmp_path)


# Edges, on graphs that are walked at random.


def walked(seed: int) -> tuple[Function, list[Passed], dict[str, int]]:
    """A function of random blocks, its points with their counts, and how often each edge was taken."""
    chance = random.Random(seed)
    number = chance.randrange(2, 9)
    blocks = []
    for n in range(number):
        ways = sorted(chance.sample(range(number), chance.choice((0, 1, 1, 2, 2))))
        how = {0: End.RETURN, 1: chance.choice((End.JUMP, End.FALL)), 2: End.BRANCH}[len(ways)]
        end = 16 * n + 16
        starts = tuple(16 * way + 16 for way in ways)
        blocks.append(Block(n, end, end + 16, end + 16 if how is End.FALL else end + 12, how, starts))
    function = Function("f", 16, 16 * number + 16, (), tuple(blocks), (), (), False, frozenset(), b"")
    before, behind = [0] * number, [0] * number
    taken: dict[str, int] = {}
    for n, block in enumerate(blocks):
        taken |= {f"p:f:@{n}->@{(way - 16) // 16}": 0 for way in block.successors}
    for _ in range(chance.randrange(1, 20)):
        at, steps = 0, 0
        while True:
            before[at] += 1
            steps += 1
            if chance.random() < 0.02 or steps > 40:
                break  # a call in the block did not return
            behind[at] += 1
            if not blocks[at].successors:
                break
            to = (chance.choice(blocks[at].successors) - 16) // 16
            taken[f"p:f:@{at}->@{to}"] += 1
            at = to
    passed = [
        Passed("p", function, Point("p", "f", "", address, False), counts[n] if chance.random() > 0.1 else None)
        for n, block in enumerate(blocks)
        for address, counts in ((block.start, before), (block.terminator, behind))
        if address < block.end
    ]
    return function, passed, taken


@pytest.mark.parametrize("seed", range(200))
def test_no_edge_count_is_guessed(seed: int) -> None:
    _, passed, taken = walked(seed)
    found = told(passed)
    assert found.keys() == taken.keys()
    assert {edge: count for edge, count in found.items() if count is not None and count != taken[edge]} == {}


def test_most_edge_counts_can_be_derived() -> None:
    found = [count for seed in range(200) for count in told(walked(seed)[1]).values()]
    assert sum(count is not None for count in found) > 0.6 * len(found)
