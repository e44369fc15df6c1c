# SPDX-License-Identifier: LGPL-2.1-or-later
"""Several consumers on one process: each counts as if it were alone, whatever becomes of the others."""

from __future__ import annotations

import random
import threading
import time

import pytest

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.programs.build import build
from tests.session.broker.consumers import CALLS, FUNCTIONS, THREADS, Worker, consume, counting


def play(loop: Loop, first: int, number: int) -> None:
    """Play so many rounds, and wait until all calls of the last have been made."""
    assert loop.process.stdin
    for each in range(first, first + number):
        loop.process.stdin.write(b"x")
        loop.process.stdin.flush()
        assert loop.line() == f"round {each}"


def expected(functions: tuple[str, ...], rounds: int) -> dict[str, int]:
    return dict.fromkeys(functions, rounds * THREADS * CALLS) if rounds else {}


def choices(number: int, chance: random.Random) -> list[tuple[str, ...]]:
    """So many random sets of functions; all have the first function in common."""
    return [("one", *sorted(chance.sample(FUNCTIONS[1:], 1 + n % 3))) for n in range(number)]


def is_clean(pid: int) -> bool:
    return not differences(pid) and not leftovers(pid)


@pytest.mark.stress
def test_two_clients_come_and_go_in_turn() -> None:
    with Loop([build("rounds")]) as loop:
        first = consume(loop.pid, counting(("one", "two")))
        first.wait_until_in()
        play(loop, 1, 2)
        second = consume(loop.pid, counting(("one",), "return"))
        second.wait_until_in()
        play(loop, 3, 3)
        assert first.finish() == expected(("one", "two"), 5)
        play(loop, 6, 1)
        assert second.finish() == expected(("one",), 4)
        assert is_clean(loop.pid)


class Churn(threading.Thread):
    """A thread that starts consumers one after the other, which leave or are killed at any moment, until it is
    stopped."""

    def __init__(self, pid: int, chance: random.Random) -> None:
        super().__init__()
        self._pid, self._chance = pid, chance
        self.over = threading.Event()
        self.came, self.errors = 0, list[BaseException]()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._one()
                self.came += 1
        except BaseException as error:
            self.errors.append(error)

    def _one(self) -> None:
        chosen = tuple(self._chance.sample(FUNCTIONS, self._chance.randint(1, 4)))
        worker = consume(self._pid, counting(chosen, self._chance.choice(("entry", "return"))))
        match self._chance.randrange(3):
            case 0:
                time.sleep(self._chance.uniform(0.0, 1.5))
                worker.kill()
            case 1:
                worker.wait_until_in()
                worker.kill()
            case _:
                worker.wait_until_in()
                assert all(count <= 1 << 40 for count in worker.finish().values())


def exact_counts(number: int, seconds: float, churns: int, seed: int) -> None:
    chance = random.Random(seed)
    with Loop([build("rounds")]) as loop:
        chosen = choices(number, chance)
        workers: list[Worker] = [consume(loop.pid, counting(each)) for each in chosen]
        for worker in workers:
            worker.wait_until_in()
        churn = [Churn(loop.pid, random.Random(chance.random())) for _ in range(churns)]
        for each in churn:
            each.start()
        rounds, end = 0, time.monotonic() + seconds
        while time.monotonic() < end or not all(each.came or each.errors for each in churn):
            play(loop, rounds + 1, 1)
            rounds += 1
        for each in churn:
            each.over.set()
        for each in churn:
            each.join()
            assert not each.errors, each.errors
        for worker, functions in zip(workers, chosen, strict=True):
            assert worker.finish() == expected(functions, rounds)
        assert wait_for(lambda: is_clean(loop.pid)), (differences(loop.pid), leftovers(loop.pid))


def test_counts_are_exact_while_other_clients_come_and_are_killed() -> None:
    exact_counts(3, 0.5, 1, seed=1)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(3))
def test_sixteen_clients_count_exactly(seed: int) -> None:
    exact_counts(16, 40.0, 4, seed)
