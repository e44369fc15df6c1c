# SPDX-License-Identifier: LGPL-2.1-or-later
"""The checks of questions against the grants of the window, in the child that is asked: a child does not rely on the
server, which may have been taken over by a request.

Each module of a child has a table ``CHECKS``: by the name of a question its check, which returns the values for the
answer, or refuses. A question that has no check is not answered.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gilk.errors import TargetError, UsageError
from gilk.web.frames import Answers
from gilk.web.grants import KERNEL, Grants, number_and_birth

Json = dict[str, Any]
Check = Callable[[Grants, Json], Json]


def checked(grants: Grants, answers: Answers, checks: Mapping[str, Check]) -> Answers:
    """The same answers, each behind its check. Raises KeyError for one that has none."""
    return {name: partial(_answer, grants, checks[name], answer) for name, answer in answers.items()}


def _answer(grants: Grants, check: Check, answer: Callable[..., Json], **given: Any) -> Json:
    try:
        inspect.signature(answer).bind(**given)
    except TypeError as error:
        raise UsageError("bad-request", f"the question is wrong: {error}") from None
    return answer(**check(grants, given))


def first_given(grants: Grants, message: Json, checks: Mapping[str, Check], word: str = "begin") -> Json:
    """The values of the first message of a child, which must have that word. Raises GilkError."""
    if message["ask"] != word:
        raise UsageError("bad-request", f"{message['ask']!r} is not {word}")
    return checks[word](grants, message["given"])


def free(_grants: Grants, given: Json) -> Json:
    """The check of a question that reaches nothing besides the values in it, and what was begun before."""
    return given


def text(given: Json, name: str) -> str:
    """The text of that name. Raises UsageError `bad-request`."""
    if type(given.get(name)) is not str:
        raise UsageError("bad-request", f"{name} is no text")
    return str(given[name])


def of_target(grants: Grants, given: Json) -> Json:
    """A question about the target whose identity is given; the answer is given its name."""
    return {**given, "target": grants.target(text(given, "target"))}


def of_kernel(_grants: Grants, given: Json) -> Json:
    """A question about the kernel of the machine that this process has."""
    if given.get("target") != KERNEL:
        raise TargetError("not-granted", "this process looks at the kernel of its machine, and at nothing else")
    return given


def of_process(grants: Grants, given: Json) -> Json:
    """A question about the process whose identity is given."""
    grants.check_process(*number_and_birth(text(given, "target")))
    return given


def of_paths(*names: str) -> Check:
    """A question about files within reach."""

    def check(grants: Grants, given: Json) -> Json:
        return {**given, **{name: str(grants.real_file(Path(text(given, name)))) for name in names}}

    return check


def of_experiment(grants: Grants, given: Json) -> Json:
    """A question about the text of an experiment."""
    return {**given, "path": str(grants.real_experiment(Path(text(given, "path"))))}


def of_c(grants: Grants, given: Json) -> Json:
    """A question about C."""
    grants.check_c()
    return given


def acting(grants: Grants, given: Json) -> Json:
    """A question upon which something changes in this window's targets."""
    grants.check_acts()
    return given


def instruments(grants: Grants, given: Json) -> Json:
    """The beginning of a session of instruments, which may be in C."""
    if text(given, "text"):
        grants.check_c()
    return acting(grants, given)


def in_processes(grants: Grants, given: Json) -> Json:
    """The beginning of a session in processes: ``processes`` has their births by number."""
    grants.check_acts()
    held = given.get("processes")
    if type(held) is not dict or not held:
        raise UsageError("bad-request", "a session in processes names some")
    for pid, born in held.items():
        if not (pid.isascii() and pid.isdecimal() and len(pid) < 10 and type(born) is int):
            raise UsageError("bad-request", f"{pid!r} is no process")
        grants.check_process(int(pid), born)
    return {**given, "processes": {int(pid): born for pid, born in held.items()}}


def in_one_process(grants: Grants, given: Json) -> Json:
    """The same in one process, whose number and birth the answer is given."""
    found = in_processes(grants, given)
    if len(found["processes"]) != 1:
        raise UsageError("bad-request", "such a session is in one process")
    return {**found, "processes": next(iter(found["processes"].items()))}


def trace_file(grants: Grants, given: Json) -> Json:
    """A trace into a new file, in the directory for traces."""
    grants.check_acts()
    file = Path(text(given, "file"))
    if grants.traces is None or file.parent != grants.traces or file.suffix != ".parquet" or file.name.startswith("."):
        raise TargetError("not-granted", f"{file} is no file for a trace of this window", "gilk web --traces DIR")
    if os.path.lexists(file):
        raise UsageError("not-granted", f"{file} exists, and a trace of the window is a new file")
    return given
