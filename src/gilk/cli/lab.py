# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk lab``: run commands in a disposable virtual machine with a stock kernel and this machine's files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from gilk.cli.duration import Duration

_CONTEXT: Final = {"ignore_unknown_options": False, "allow_interspersed_args": False}


@click.group()
def lab() -> None:
    """A disposable virtual machine with a stock kernel and this machine's files."""


def _machine(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that describe the virtual machine."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS: Final = (
    click.option("--cpus", default=1, show_default=True, help="Processors."),
    click.option("--memory", default=1024, show_default=True, metavar="MIB", help="Memory."),
    click.option("--kernel", "release", default="", metavar="RELEASE", help="As uname -r says it; fetched if need be."),
    click.option("--append", multiple=True, metavar="ARGUMENTS", help="Arguments for the kernel. May be repeated."),
    click.option("--rw", multiple=True, metavar="DIR", type=click.Path(path_type=Path),
                 help="A directory in which changes are real. May be repeated."),
    click.option("--timeout", type=Duration("90, 90s or 1.5min", least=1), metavar="TIME", help="End all after it."),
    click.option("--icount", is_flag=True, help="Emulate, one instruction a nanosecond: durations are exact."),
    click.option("--network", is_flag=True, help="A network card, behind a router of this machine."),
    click.option("--kaslr", is_flag=True, help="Let the kernel move to a random address; this takes longer."),
    click.option("--emulate", is_flag=True, help="Do not use KVM."),
)  # fmt: skip


@lab.command(context_settings=_CONTEXT)
@_machine
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND in a new machine, and end as it ends."""
    return _inside(command, terminal=False, **options)


@lab.command(context_settings=_CONTEXT)
@_machine
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(command: tuple[str, ...], **options: Any) -> int:
    """A shell, or COMMAND, on a terminal in a new machine. It is gone when the shell ends."""
    return _inside(command or (os.environ.get("SHELL") or "/bin/sh",), terminal=True, **options)


def _inside(
    command: tuple[str, ...], terminal: bool, release: str, append: tuple[str, ...], rw: tuple[Path, ...],
    timeout: int | None, **machine: Any,
) -> int:  # fmt: skip
    deadline = None if timeout is None else time.monotonic() + timeout / 1e9
    from gilk.api import machines  # here: --help need not wait for it

    wanted = machines.lab.Machine(arguments=" ".join(append), rw=rw, **machine)
    limit = machines.lab.BOOT_LIMIT if timeout is None else timeout / 1e9
    with machines.lab.boot(wanted, release, limit, lambda text: click.echo(f"gilk: {text}", err=True)) as vm:
        return machines.lab.attach(
            vm, command, directory=os.getcwd(), environment=os.environ, terminal=terminal, deadline=deadline
        )
