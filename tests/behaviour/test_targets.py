# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions in a process and in a program in memory: the same counts, and the same code at the end.

The right counts are those of an emulator that has executed the program undisturbed.
"""

from __future__ import annotations

import pytest

from gilk.errors import UsageError
from gilk.session.request import Builtin, Request, Wanted, expand
from gilk.spec.point import parse
from tests.fake.both import Launched
from tests.fake.loading import read
from tests.fake.programs import built
from tests.fake.sessions import alone, counts, program

RESULT, EXECUTED, _ = alone()
SYMBOLS = read(built("plain")).symbols  # the program lies where it was linked for


def wanted(one: Launched, *points: str, instrument: Builtin = Builtin.COUNT) -> list[Wanted]:
    return list(expand(one.target, [Request(parse(point), instrument) for point in points]))


def code(one: Launched) -> bytes:
    (main,) = (loaded for loaded in one.target.loaded() if loaded.main)
    (part,) = (part for part in read(main.path).parts if part.flags & 1)
    return one.read(part.address + main.bias, len(part.content))


@pytest.mark.parametrize("points", [("*:entry",), ("*:return",), ("*:blocks",), ("*:entry", "*:blocks")], ids="+".join)
def test_counts_are_those_of_the_emulator(target: Launched, points: tuple[str, ...]) -> None:
    with target.session() as of:
        asked = wanted(target, *points)
        probes = of.insert_wanted(asked)
        assert target.finish() == RESULT & 0xFF
        found = counts(of, asked, probes)
    assert len(found) > 0.7 * len({each.point.address for each in asked})
    assert found == {address: EXECUTED[address] for address in found}


def test_arguments_are_those_that_the_program_passes(target: Launched) -> None:
    one = program()
    arguments = one.watch("leaf", "rdi")
    one.finish()
    with target.session() as of:
        of.insert_wanted(wanted(target, "leaf:entry", instrument=Builtin.ARGS))
        target.finish()
        table = of.close()
    assert table["arg0"].to_pylist() == arguments


def test_removed_probes_count_nothing_and_leave_the_code_as_it_was(target: Launched) -> None:
    before = code(target)
    with target.session() as of:
        asked = wanted(target, "*:entry")
        probes = of.insert_wanted(asked)
        assert code(target) != before
        of.remove(probes[: len(probes) // 2])
        assert code(target) != before
        of.remove(probes)
        assert code(target) == before
        assert target.finish() == RESULT & 0xFF
        assert set(counts(of, asked, probes).values()) == {0}
    assert of.restored is True


def test_the_program_goes_on_after_a_session_ends(target: Launched) -> None:
    """A process goes on by itself after a session."""
    before = code(target)
    with target.session() as of:
        of.insert_wanted(wanted(target, "*:entry", instrument=Builtin.TIME))
        assert code(target) != before
    assert of.restored is True
    assert target.finish() == RESULT & 0xFF


@pytest.mark.parametrize(
    ("point", "slug"),
    [
        ("no_such:entry", "no-such-function"),
        ("libz*:deflate:entry", "no-such-image"),
        ("leaf:+0x1", "not-an-instruction"),
    ],
)
def test_unknown_points_are_refused_and_change_nothing(target: Launched, point: str, slug: str) -> None:
    before = code(target)
    with target.session() as of:
        with pytest.raises(UsageError) as caught:
            of.insert(point, "count")
        assert caught.value.slug == slug
        assert code(target) == before
