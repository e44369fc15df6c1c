# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whatever fails, and wherever, the program is left as it was, and goes on as if undisturbed.

A session takes a series of steps in the target: system calls, reads and writes of its memory, stops. Each is made to
fail once, in a run of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

import pytest

from gilk import activity
from gilk.errors import GilkError
from gilk.session.request import Builtin
from gilk.session.session import Session
from tests.fake.sessions import alone, code, counts, data, ours, program, session, wanted
from tests.fake.target import FakeProcess
from tests.seldom import seldom

_MOMENT = 500  # instructions that the program has executed before
Use = Callable[[Session, FakeProcess], None]


def a_count(of: Session, process: FakeProcess) -> None:
    """Put one probe in, and take it out."""
    probes = of.insert_wanted(wanted(process, "leaf:entry"))
    process.program.rounds()
    of.remove(probes)


def many(of: Session, process: FakeProcess) -> None:
    """Put probes everywhere, some of them in the way of others, twice."""
    first = of.insert_wanted(wanted(process, "*:entry", instrument=Builtin.TIME))
    process.program.rounds()
    of.insert_wanted(wanted(process, "*:blocks"))
    process.program.rounds()
    of.remove(first)
    of.poll()


USES = [a_count, many]
#: What a session does, and the distance between the steps that fail; under `make stress` all of them do.
RUNS = [
    pytest.param(a_count, 2, id="a count"),
    pytest.param(many, 7, id="many"),
    pytest.param(a_count, 1, id="a count, every step", marks=pytest.mark.stress),
    pytest.param(many, 1, id="many, every step", marks=pytest.mark.stress),
]
#: Steps whose failure may leave memory: it may not be gilk's, for all that is known, or the program lets nothing be
#: unmapped.
MAY_LEAVE_MEMORY = {"check_mapped", "stop", "borrow", "munmap", "leave_our_memory"}
MAY_LEAVE_BLOCKS = {"stop"}  # the blocks of threads, which the next session takes for another session's


def started() -> FakeProcess:
    one = program()
    one.step(one.tasks[one.pid], _MOMENT)
    return FakeProcess(one)


def used(use: Use, process: FakeProcess, errors: list[BaseException] | None = None) -> bool:
    """Use a session and leave, whatever fails. Returns whether the session says that all is as it was; adds to
    ``errors``."""
    of, errors = None, [] if errors is None else errors
    try:
        of = session(process)
        use(of, process)
    except (GilkError, OSError) as error:
        errors.append(error)
    for close in (*((of.close,) if of else ()), process.keeper.close):
        try:
            close()
        except (GilkError, OSError) as error:
            errors.append(error)
    return not errors and of is not None and of.restored is True


def steps(use: Use) -> list[str]:
    """The names of the steps that a session takes in the program, in order."""
    process = started()
    assert used(use, process)
    return process.traced.step.done


@pytest.mark.parametrize("use", USES)
def test_a_session_takes_the_same_steps_in_each_run(use: Use) -> None:
    """Otherwise the number of a step would mean another step in the next run."""
    assert steps(use) == steps(use)


@pytest.mark.parametrize("number", seldom([errno.ENOMEM, errno.EPERM], 1), ids=["ENOMEM", "EPERM"])
@pytest.mark.parametrize(("use", "every"), RUNS)
def test_a_step_that_fails_leaves_the_program_as_it_was(use: Use, every: int, number: int) -> None:
    result, _, variables = alone()
    for at, name in list(enumerate(steps(use)))[::every]:
        process, where = started(), f"{at}: {name}"
        one = process.program
        before = code(one)
        process.traced.step.fails = at, OSError(number, os.strerror(number))
        used(use, process)
        assert code(one) == before, where
        if name not in MAY_LEAVE_MEMORY:
            assert not ours(one), where
        if name not in MAY_LEAVE_BLOCKS:
            assert used(use, FakeProcess(one)), where
        assert one.finish() == result, where
        assert data(one) == variables, where


@pytest.mark.parametrize(("use", "every"), RUNS)
def test_a_program_killed_at_any_step_gives_an_error_of_gilk(use: Use, every: int) -> None:
    """The user gets an error of gilk's, whatever was being done."""
    for at, name in list(enumerate(steps(use)))[::every]:
        process, where = started(), f"{at}: {name}"
        process.traced.step.before = at, process.program.end
        errors: list[BaseException] = []
        used(use, process, errors)
        assert all(isinstance(error, GilkError) for error in errors), (where, errors)


class Gone(Exception):
    """Nobody waits for the work any more."""


def ends_at(step: int) -> Callable[[], None]:
    left = iter(range(step))

    def check() -> None:
        if next(left, None) is None:
            raise Gone

    return check


def test_planning_for_nobody_ends_at_each_function_and_changes_nothing() -> None:
    """The session goes on for others: it has its probes as before, and takes new ones."""
    result, executed, variables = alone()
    process = started()
    one, of = process.program, session(process)
    first = wanted(process, "leaf:entry", instrument=Builtin.TIME)
    probes, asked = of.insert_wanted(first), wanted(process, "*:blocks")
    before, ended = code(one), 0
    while True:
        with suppress(Gone), activity.checked(ends_at(ended)):
            more = of.insert_wanted(asked)
            break
        ended += 1
        assert code(one) == before and not any(probe.refusal for probe in probes), ended
    assert ended > 3
    assert one.finish() == result and data(one) == variables
    of.poll()
    found = counts(of, asked, more)
    assert any(found.values()) and all(found[at] <= executed[at] for at in found)
