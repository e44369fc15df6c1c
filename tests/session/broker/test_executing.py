# SPDX-License-Identifier: LGPL-2.1-or-later
"""Work is done again while a process stands still, if it has executed another program meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from gilk.errors import TargetError, UsageError
from gilk.session.broker.executing import in_one_program
from gilk.targets.process import Process


class Executing(Process):
    """A process that executes another program at each look, unless it stands still."""

    def __init__(self) -> None:
        self.pid, self.launched, self.keeper = 1, False, None  # type: ignore[assignment]
        self._held = self._stopped = False
        self.held = 0

    alive = True

    def has_executed(self) -> bool:
        return not self.stands

    def hold(self) -> None:
        self.held, self._stopped = self.held + 1, True

    def release(self) -> None:
        self._stopped = False


def failing(errors: list[Exception]) -> Any:
    """Work that raises these errors, one each time, and then returns how often it was undone before; and what undoes
    it."""
    undone: list[None] = []

    def work() -> int:
        if errors:
            raise errors.pop(0)
        return len(undone)

    return work, lambda: undone.append(None)


@pytest.mark.parametrize(("slugs", "held"), [
    ([], 0),
    (["code-changed"], 1),  # whatever the error, as the process has executed another program
    (["no-such-process", "no-such-image"], 2),  # its libraries are not mapped yet where it stands
])  # fmt: skip
def test_work_is_done_again_until_it_succeeds(slugs: list[str], held: int) -> None:
    process = Executing()
    work, undo = failing([TargetError(slug, "") for slug in slugs])
    assert in_one_program([process], work, undo) == held == process.held
    assert process.stands is bool(held)


def test_errors_of_a_process_that_stands_still_are_raised() -> None:
    process = Executing()
    work, undo = failing([TargetError("no-such-process", ""), UsageError("bad-point", "")])
    with pytest.raises(UsageError):
        in_one_program([process], work, undo)


def test_the_number_of_attempts_is_limited() -> None:
    work, undo = failing([TargetError("image-gone", str(n)) for n in range(100)])
    with pytest.raises(TargetError) as raised:
        in_one_program([Executing()], work, undo)
    assert raised.value.slug == "image-gone"
