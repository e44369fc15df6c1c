# SPDX-License-Identifier: LGPL-2.1-or-later
"""The options that choose running processes by number, by name, user or control group, or as children of others, and
those that choose functions to follow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gilk.errors import UsageError

if TYPE_CHECKING:
    _Type = click.ParamType[tuple[int, ...]]
else:
    _Type = click.ParamType  # generic only from click 8.2 on

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Pids(_Type):
    """The type of an option that takes process numbers, separated by commas."""

    name = "pid"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The process numbers in ``value``. Raises UsageError `usage`."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        if not all(word.isascii() and word.isdecimal() and 0 < len(word) < 10 for word in words):
            raise UsageError("usage", f"-p: {value!r} is no number of a process", "for example 4711, or 4711,4712")
        return tuple(map(int, words))


_OPTIONS = (
    click.option("-p", "--pid", "pids", multiple=True, type=Pids(), metavar="PID",
                 help="A running process, or several with commas between; repeatable."),
    click.option("--name", "names", multiple=True, metavar="GLOB",
                 help="The running processes whose programs are called so; repeatable."),
    click.option("--children-of", "ancestors", multiple=True, type=click.IntRange(1), metavar="PID",
                 help="The processes that this one has begun, and those that they have; repeatable."),
    click.option("--user", "users", multiple=True, metavar="USER",
                 help="The running processes of this user; repeatable."),
    click.option("--cgroup", "groups", multiple=True, metavar="GLOB",
                 help="The running processes in this control group, as system.slice/nginx.service; repeatable."),
)  # fmt: skip


def processes_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add -p, --name, --children-of, --user and --cgroup; the command gets ``pids``, the numbers of all processes that
    they choose."""

    @functools.wraps(command)
    def choosing(*, pids: Any, names: Any, ancestors: Any, users: Any, groups: Any, **given: Any) -> int:
        found = tuple(pid for some in pids for pid in some)
        if names or ancestors or users or groups:
            from gilk.api.running import chosen  # here: --help need not wait for it

            found = chosen(found, names, ancestors, users, groups)
        return command(pids=found, **given)

    for option in reversed(_OPTIONS):
        choosing = option(choosing)
    return choosing


def scope_options(command: _Command) -> _Command:
    """Add the options --scope and --skip."""
    option = click.option("--skip", multiple=True, metavar="GLOB", help="Do not follow these; repeatable.")
    command = option(command)
    return click.option(
        "--scope", multiple=True, metavar="GLOB",
        help="Follow only these functions: [IMAGE:]FUNCTION, or IMAGE: for all of an image; repeatable.",
    )(command)  # fmt: skip
