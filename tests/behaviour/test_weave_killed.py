# SPDX-License-Identifier: LGPL-2.1-or-later
"""The weaver, or one of four processes, is killed before and amid each request to the keepers: afterwards either all
processes have the aspects or none has, by their own answers."""

from __future__ import annotations

import functools
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.state import WovenState
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import GilkError
from gilk.session import advising
from gilk.targets.maps import CODE_NAME, read_maps
from gilk.targets.process import KeeperClient, attach
from gilk.targets.restore import is_kept, restore, session_of
from tests.behaviour.advised import Rounds, aspects, build, rounds
from tests.behaviour.harness import differences, leftovers, wait_for
from tests.behaviour.test_weavings import PROGRAM
from tests.seldom import seldom

FIX = """
call(long one(long k)) then inplace { return 1000; };
seq(call(long one(long k)); call(long two(long k)) then inplace { return 2000; });
"""
_STEPS = ((KeeperClient, "ask"), (KeeperClient, "_await"), (WovenState, "switch"), (WovenState, "stay"))
_Numbers = list[int]


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def stepping(limit: int, act: Callable[[], None]) -> Iterator[_Numbers]:
    """In the block, ``act`` is called before the weaver takes the step ``limit``. The yielded list has the number of
    steps so far."""
    done = [0]

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def instead(*given: Any, **named: Any) -> Any:
            done[0] += 1
            if done[0] == limit:
                act()
            return function(*given, **named)

        return instead

    kept = [getattr(owner, name) for owner, name in _STEPS]
    for (owner, name), function in zip(_STEPS, kept, strict=True):
        setattr(owner, name, guarded(function))
    try:
        yield done
    finally:
        for (owner, name), function in zip(_STEPS, kept, strict=True):
            setattr(owner, name, function)


def weave(path: Path, pids: _Numbers, persist: bool, limit: int) -> tuple[int, int]:
    """Weave in and out again, until the step ``limit``. Returns the numbers of steps until everything is in, and
    until everything is out."""
    with ExitStack() as stack, stepping(limit, end) as done:
        held = [stack.enter_context(attach(pid)) for pid in pids]
        with Weaving(read_aspects(path), dict.fromkeys(pids, ()), held, persist=persist) as weaving:
            weaving.weave()
            there = done[0]
            weaving.unweave()
            return there, done[0]


def settled(pid: int) -> bool:
    """Whether no keeper has the process any more."""
    return not any(is_kept(session_of(one)) for one in read_maps(pid) if one.path.startswith(CODE_NAME))


def answers(programs: list[Rounds]) -> set[str]:
    """Whether the processes are woven: {"woven"} or {"plain"} if they agree."""
    found = (tuple(map(int, one.ask().split())) for one in programs)
    return {"woven" if a == 1000 and b == 2000 else "plain" if 3 * a == 2 * b else f"{a} {b}" for a, b in found}


class Killed:
    """Four processes, and weavers that are killed."""

    def __init__(self, path: Path, programs: list[Rounds], persist: bool) -> None:
        self._path, self._programs, self._persist = path, programs, persist
        self._pids = [one.pid for one in programs]
        #: The steps of a weaver that is not killed. It also compiles the C, once for all.
        self.there, self.steps = weave(path, self._pids, persist, 0)

    def check(self, limits: Iterable[int]) -> None:
        """Kill at these steps. A persistent weaving stays only if the weaver is killed once everything is in and
        before anything is taken out. That step comes last: a process that was restored keeps memory of gilk's."""
        for limit in sorted(limits, key=lambda limit: limit == self.there + 1):
            stays = self._persist and limit == self.there + 1
            assert self._at(limit) == {"woven" if stays else "plain"}, (limit, self.there, self.steps)

    def _at(self, limit: int) -> set[str]:
        """The answers of the processes after the weaver was killed at that step; then the processes are restored."""
        child = os.fork()
        if not child:
            try:
                weave(self._path, self._pids, self._persist, limit)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert wait_for(lambda: all(map(settled, self._pids)))
        found = answers(self._programs)
        if found == {"woven"}:
            for pid in self._pids:
                restore(pid)
        else:
            assert not any(map(leftovers, self._pids)), limit
        assert not any(map(differences, self._pids)), limit
        assert answers(self._programs) == {"plain"}
        return found


def built(place: Path) -> Path:
    return build(place, PROGRAM.replace("static long n;", "static long n; n %= 7;"))


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[Rounds]]:
    path = built(tmp_path)
    with ExitStack() as stack:
        yield [stack.enter_context(rounds(path)) for _ in range(4)]


@pytest.fixture
def killed(
    programs: list[Rounds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Killed:
    monkeypatch.setattr(advising, "kept_advice", functools.cache(advising.kept_advice))
    return Killed(aspects(tmp_path, FIX), programs, request.param)


@pytest.mark.parametrize("killed", seldom((False, True), 1), indirect=True, ids=["goes", "stays"])
def test_the_weaver_is_killed_at_some_of_its_steps(killed: Killed) -> None:
    killed.check([*range(3, killed.there, killed.there // 4), *range(killed.there, killed.there + 3), killed.steps])


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("killed", [True, False], indirect=True, ids=["stays", "goes"])
def test_the_weaver_is_killed_at_every_one_of_its_steps(killed: Killed) -> None:
    """There are some 200 steps in both cases together."""
    killed.check(range(1, killed.steps + 1))
    assert killed.steps > 90


def after_a_death(path: Path, programs: list[Rounds], limit: int) -> str:
    """Weave into the programs, of which one is killed before the weaver's step ``limit``, and out again. Returns the
    slug of the error by which the weaver refuses, or '' if it does not."""
    dies, *others = programs
    try:
        with ExitStack() as stack, stepping(limit, lambda: os.kill(dies.pid, signal.SIGKILL)):
            held = [stack.enter_context(attach(one.pid)) for one in programs]
            with Weaving(read_aspects(path), dict.fromkeys([one.pid for one in programs], ()), held) as weaving:
                weaving.weave()
                assert answers(others) == {"woven"}
                weaving.unweave()
    except GilkError as error:
        return error.slug
    return ""


class Dying:
    """Programs of which one is killed while they are woven."""

    def __init__(self, place: Path) -> None:
        self._program = built(place)
        self._path = aspects(place, FIX)
        with self._running(0) as programs:
            self.there, self.steps = weave(self._path, [one.pid for one in programs], False, 0)

    def slug(self, limit: int) -> str:
        """The slug of the refusal when one is killed before that step. Then the others are as they were."""
        with self._running(-signal.SIGKILL) as programs:
            slug = after_a_death(self._path, programs, limit)
            assert answers(programs[1:]) == {"plain"}, (limit, slug)
            assert not any(differences(one.pid) or leftovers(one.pid) for one in programs[1:]), (limit, slug)
            return slug

    @contextmanager
    def _running(self, first: int) -> Iterator[list[Rounds]]:
        """Three programs, of which the first ends with that status."""
        with ExitStack() as stack:
            yield [stack.enter_context(rounds(self._program, status)) for status in (first, 0, 0)]


@pytest.fixture
def dying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dying:
    monkeypatch.setattr(advising, "kept_advice", functools.cache(advising.kept_advice))
    return Dying(tmp_path)


def test_a_process_is_killed_at_some_of_the_weavers_steps(dying: Dying) -> None:
    """Until its code is changed, the death refuses the aspects for all; then the others have them all the same."""
    found = [dying.slug(limit) for limit in (2, dying.there // 2, dying.there, dying.there + 1, dying.steps)]
    assert found[0] == "no-such-process" and set(found) == {"no-such-process", ""} and found[-3:] == [""] * 3


@pytest.mark.stress
def test_a_process_is_killed_at_every_one_of_the_weavers_steps(dying: Dying) -> None:
    assert {dying.slug(limit) for limit in range(1, dying.steps + 1)} == {"no-such-process", ""}
