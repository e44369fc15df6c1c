# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk web``: the window, a local web application."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gilk.errors import GilkError, UsageError
from gilk.render.text import cell, plural

if TYPE_CHECKING:
    from gilk.web.grants import Grants

_NEEDED = ("starlette", "uvicorn", "websockets")
_MACHINES = "it is lab, here, or ssh:HOST, whose other options are in ~/.ssh/config"
_MACHINE = re.compile(r"lab|here|ssh:\w[\w.@-]*", re.ASCII)  # it is a part of addresses


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Listen at this port of 127.0.0.1, not any.")
@click.option(
    "--socket", "path", type=click.Path(path_type=Path), help="Listen at a Unix socket, which only you can reach."
)
@click.option("--open", "opening", is_flag=True, help="Open the window in a browser.")
@click.option("--read-only", is_flag=True, help="Show, and change nothing.")
@click.option("--pid", "pids", multiple=True, type=click.IntRange(1), help="A process to reach; repeatable.")
@click.option("--user", "users", multiple=True, metavar="USER", help="Reach the processes of this user; repeatable.")
@click.option("--kernel", is_flag=True, help="Show the kernel of this machine.")
@click.option(
    "--on",
    "machine",
    default="",
    metavar="MACHINE",
    help="Instrument the kernel of this machine: lab (a virtual one), here, or ssh:HOST.",
)
@click.option(
    "--files", "folders", multiple=True, metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show programs and libraries in this directory; repeatable.",
)  # fmt: skip
@click.option(
    "--experiments", multiple=True, metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Show, write and run the experiments in this directory; repeatable.",
)  # fmt: skip
@click.option(
    "--traces", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Keep the traces that are made in the window in this directory.",
)  # fmt: skip
@click.option("--allow-c", is_flag=True, help="Take instruments in C, which is code that runs in the targets.")
@click.option("--audit", type=click.Path(dir_okay=False, path_type=Path), help="Write what is done to this file.")
@click.option("--list", "listing", is_flag=True, help="List the windows that run, and end.")
@click.option(
    "--stop", "stopped", type=click.IntRange(1), metavar="PID", help="Stop the window of this process, and end."
)
@click.option(
    "--key", "keyed", type=click.IntRange(0), is_flag=False, flag_value="0", metavar="[PID]",
    help="Print a new address of your window, or of that of this process, and end.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the address, or the list, as JSON.")
def web(
    port: int, path: Path | None, opening: bool, read_only: bool, pids: tuple[int, ...], users: tuple[str, ...],
    kernel: bool, machine: str, folders: tuple[Path, ...], experiments: tuple[Path, ...], traces: Path | None,
    allow_c: bool, audit: Path | None, listing: bool, stopped: int | None, keyed: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Serve the window on this machine, and print its address, which is good for one browser and for a minute.

    It reaches your own processes; with --pid or --user it reaches these instead. As root it reaches what is named.
    Ctrl-C ends it, and takes out everything that was put in.
    """
    if keyed is not None:
        _print(_new_address(keyed or _own_window()), as_json, "for one browser, within a minute")
        return
    if listing or stopped is not None:
        _others(stopped, as_json)
        return
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise GilkError("web-missing", f"the window needs {', '.join(missing)}", "pip install 'gilk[web]'")
    if path is not None and (port or opening):
        raise UsageError("usage", "--socket does without --port and --open", "choose one")
    from gilk.web.serve import Settings, serve  # here: --help need not wait for it

    if machine and not _MACHINE.fullmatch(machine):
        raise UsageError("bad-machine", f"{machine!r} is no machine for a window", _MACHINES)
    granted = _grants(pids, users, kernel, machine, folders, experiments, traces, not read_only)
    granted = replace(granted, c=allow_c)
    serve(Settings(granted, port, path, audit), lambda address: _ready(address, opening, as_json))


def _new_address(pid: int) -> str:
    """The address of the window of process ``pid`` with a new key. Raises UsageError `no-such-window`,
    `not-your-window`, TargetError."""
    from gilk.api import windows

    return windows.key(pid)


def _own_window() -> int:
    """The number of the process of the only window of this user's, or of the user who became root by sudo. Raises
    UsageError `no-such-window`, `ambiguous-window`."""
    from gilk.api import windows
    from gilk.web.peer import trusted_users

    found = [one["pid"] for one in windows.listed() if one["user"] in trusted_users()]
    if not found:
        raise UsageError("no-such-window", "there is no window of yours", "`gilk web` starts one")
    if len(found) > 1:
        pids = ", ".join(map(str, found))
        raise UsageError("ambiguous-window", f"the processes {pids} have windows of yours", "gilk web --key PID")
    return int(found[0])


def _others(stopped: int | None, as_json: bool) -> None:
    """Stop the window of process ``stopped``, or list all windows. Raises UsageError `no-such-window`, TargetError."""
    from gilk.api import windows

    if stopped is not None:
        windows.stop(stopped)
        return
    found = windows.listed()
    if as_json:
        click.echo(json.dumps(found))
        return
    for one in found:
        click.echo(f"{one['pid']:>7}  {cell(one['silent']) if 'silent' in one else _described(one)}")


def _described(one: dict[str, Any]) -> str:
    import time

    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["since"]))
    return f"{cell(one['address'])}  since {since}  {plural(one['sessions'], 'session')} under way"


def _grants(
    pids: tuple[int, ...], users: tuple[str, ...], kernel: bool, machine: str, folders: tuple[Path, ...],
    experiments: tuple[Path, ...], traces: Path | None, acts: bool,
) -> Grants:  # fmt: skip
    from gilk.web.grants import Grants

    numbers = frozenset(map(_user, users))
    named = bool(pids or numbers)
    if os.geteuid() == 0 and not (named or kernel or machine or folders or experiments or traces):
        raise UsageError(
            "name-what-to-reach", "as root, the window reaches only what is named",
            "--pid N, --user NAME (root is one), --kernel, --on here or lab, --files DIR, --experiments DIR",
        )  # fmt: skip
    own = frozenset() if named or os.geteuid() == 0 else frozenset((os.geteuid(),))
    real, written = (tuple(folder.resolve() for folder in given) for given in (folders, experiments))
    kept = None if traces is None else traces.resolve()
    return Grants(numbers | own, frozenset(pids), real, kernel, acts, written, kept, machine)


def _user(name: str) -> int:
    """The user number that ``name`` stands for. Raises UsageError `no-such-user`."""
    import pwd

    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise UsageError("no-such-user", f"there is no user {name!r}") from None


def _ready(address: str, opening: bool, as_json: bool) -> None:
    _print(address, as_json, "for one browser, within a minute; Ctrl-C ends the window")
    if opening:
        _open(address)


def _print(address: str, as_json: bool, about: str) -> None:
    click.echo(json.dumps({"address": address}) if as_json else f"{cell(address)}\n({about})")


def _open(address: str) -> None:
    """Open a browser on a private file that redirects to the address: everybody can read a browser's command line.
    Raises UsageError `no-browser`."""
    import shutil
    import tempfile
    from html import escape

    program = shutil.which("xdg-open")
    if program is None:
        raise UsageError("no-browser", "there is no program xdg-open to open a browser with", "open the address")
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="gilk-", delete=False) as file:  # mode 0600
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    subprocess.Popen([program, file.name], stdin=subprocess.DEVNULL, start_new_session=True)
