# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rounds of random commands; a round depends only on its seed, apart from the moments at which things end."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.behaviour.harness import Loop, differences, leftovers, wait_for
from tests.fuzz.commands import Asked, asked
from tests.fuzz.counting import compared
from tests.fuzz.running import LIMIT, Ended, Place, differs, faults
from tests.fuzz.subjects import Subject, launched, rounds

#: How a command on a running process is ended: by itself if it can, or by a signal.
_ENDS = (None, None, signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_SETTLED = 30.0  # seconds for a round's processes to be gone


@dataclass(frozen=True)
class Told:
    """The result of a round: its commands, as typed in a shell, how they ended, and what was wrong."""

    seed: int
    kind: str
    subject: str
    commands: tuple[tuple[str, ...], ...]
    slugs: tuple[str, ...]
    wrong: tuple[str, ...]
    said: str = ""


def one_round(seed: int) -> Told:
    chance = random.Random(seed)
    make = chance.choices([_of_launched, _of_running, compared_round], [5, 4, 2])[0]
    with contextlib.closing(Place()) as place:
        told = make(seed, chance, place)
        left = _left(place)
        return told if not left else Told(**{**told.__dict__, "wrong": (*told.wrong, *left)})


def _left(place: Place) -> list[str]:
    try:
        wait_for(lambda: not place.processes(), _SETTLED)
    except AssertionError:
        return [f"left: {each}" for each in place.processes()]
    return []


def _of_launched(seed: int, chance: random.Random, place: Place) -> Told:
    subject = launched(chance)
    one = asked(subject, chance)
    words = place.command(one, ["--", *subject.command])
    ended = place.run(words, subject.stdin)
    return _told(seed, "launched", subject, [words], [ended], [*faults(one, ended), *differs(one, subject, ended)])


def compared_round(seed: int, chance: random.Random, place: Place) -> Told:
    subject = launched(chance)
    while not subject.exact:
        subject = launched(chance)
    words, ended, wrong = compared(subject, chance, place)
    return _told(seed, "compared", subject, [words], [ended], wrong)


def _told(
    seed: int, kind: str, subject: Subject, commands: list[list[str]], ended: list[Ended], wrong: list[str]
) -> Told:
    slugs = tuple(sorted(slug for each in ended for slug in each.slugs))
    said = "\n".join(f"[{each.status}] {each.err[-1500:]}" for each in ended) if wrong else ""
    return Told(seed, kind, subject.name, tuple(map(tuple, commands)), slugs, tuple(wrong), said)


# Rounds with running processes.


def _of_running(seed: int, chance: random.Random, place: Place) -> Told:
    """Run one, two or three commands at once, some of which are killed; the program's own checks must hold, and it
    must be clean."""
    subject = rounds(chance)
    several = [asked(subject, chance) for _ in range(chance.choice([1, 2, 2, 3]))]
    wrong: list[str] = []
    commands: list[list[str]] = []
    ended: list[Ended] = []
    try:
        with Loop(subject.command, env=place.env) as loop:
            for one, words, end in _at_once(loop, several, chance, place):
                commands.append(words)
                ended.append(end)
                wrong += faults(one, end)
            wrong += _unclean(loop.pid, parked=subject.name.startswith("green"))
    except AssertionError as error:
        wrong.append(f"the program: {error} {getattr(error, '__notes__', '')}")
    return _told(seed, "running", subject, commands, ended, wrong)


def _at_once(
    loop: Loop, several: list[Asked], chance: random.Random, place: Place
) -> Iterator[tuple[Asked, list[str], Ended]]:
    begun = []
    for number, one in enumerate(several):
        ending = chance.choice(_ENDS)
        limited = (
            ["--for", f"{chance.randint(10, 800)}ms"] if ending is None and one.kind not in ("trace", "dtrace") else []
        )
        timed = Asked(one.kind, (one.words[0], *limited, *one.words[1:]), one.says, one.files)
        words = place.command(timed, ["-p", str(loop.pid)], number)
        begun.append((one, words, place.start(words, number), ending, chance.uniform(0.2, 4)))
        time.sleep(chance.choice([0, 0.3, 1]))
    for number, (one, words, process, ending, after) in enumerate(begun):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
        yield one, words, place.ended(_end(process, ending), number)


def _end(process: subprocess.Popen[bytes], ending: signal.Signals | None) -> int | None:
    """End a command. Returns its exit status, 0 if it was killed on purpose, None if it did not end by itself."""
    if process.poll() is None and ending is not None:
        process.send_signal(ending)
    for _ in range(2):
        try:
            status = process.wait(4 if ending is None else LIMIT)
            return 0 if ending is not None and status == -ending else status
        except subprocess.TimeoutExpired:
            ending = signal.SIGINT
            process.send_signal(ending)
    try:
        status = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
    return status


def _unclean(pid: int, parked: bool) -> list[str]:
    """The remains of gilk in the process. If ``parked``, a handler of the program may wait in gilk's memory for
    ever, so that may stay."""
    try:
        wait_for(lambda: (parked or not leftovers(pid)) and not differences(pid), _SETTLED)
    except OSError:
        return ["the program has ended"]
    except AssertionError:
        return [f"in the process: {each}" for each in (*leftovers(pid), *differences(pid))]
    return []
