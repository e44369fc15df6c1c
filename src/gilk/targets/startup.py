# SPDX-License-Identifier: LGPL-2.1-or-later
"""Launches a program, and runs the first part of it, before its own code: the linker's work, and constructors."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gilk.errors import TargetError
from gilk.image.model import Image, SymbolKind
from gilk.targets import launch
from gilk.targets.base import Loaded
from gilk.targets.launch import Until
from gilk.targets.process import KeeperClient, Process


def start(
    arguments: list[str],
    environment: dict[str, str] | None = None,
    directory: str = "",
    until: Until = Until.LINKED,
) -> Process:
    """Launch a program and stop it with its libraries in place, before its own code runs, or where ``until`` says.

    Raises TargetError `cannot-launch`, `no-main`, ImageError for a file that is no program for this machine.
    """
    ignored = frozenset(
        int(n) for n in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT) if signal.getsignal(n) == signal.SIG_IGN
    )
    command = launch.Command(
        tuple(arguments), dict(environment or os.environ), directory or os.getcwd(), os.getpgrp(), ignored
    )
    keeper, process = KeeperClient(launches=True), None
    try:
        pid = keeper.launch(command)
        process = Process(keeper, pid, launched=True)
        if until is not Until.EXEC:
            link(process)
        if until is Until.MAIN:
            _run_to_main(process)
    except BaseException:
        if process is not None:
            process.kill_unstarted()
            process.files.close()
        keeper.leave()
        raise
    return process


def link(process: Process) -> None:
    """Run a dynamic program to where its libraries are mapped and relocated. Raises TargetError `cannot-launch`."""
    if not process.files.interpreter(Path(f"/proc/{process.pid}/exe")):
        return
    for linker in reversed(process.loaded()):
        symbols = {
            s.name: s.address
            for s in process.image(linker.path).symbols
            if s.name.startswith(("_dl_debug", "_r_debug"))
        }
        if "_dl_debug_state" in symbols and "_r_debug" in symbols:
            notify, state = (symbols[n] + linker.bias for n in ("_dl_debug_state", "_r_debug"))
            if not process.keeper.run_until_linked(notify, state + 24):
                raise TargetError("cannot-launch", "the program ended while it was being linked")
            return


def _run_to_main(process: Process) -> None:
    """Run a program until all constructors have run. Raises TargetError `no-main`, `cannot-launch`."""
    loaded = next((each for each in process.loaded() if each.main), None)
    if loaded is None:
        raise TargetError("no-main", f"the program of process {process.pid} cannot be read")
    image = process.image(loaded.path)
    address = next((s.address for s in image.named("main") if s.kind is SymbolKind.FUNC), 0)
    address = address + loaded.bias if address else _handed_over(process, loaded, image)
    if not process.keeper.run_to(address, finally_=True):
        raise TargetError("cannot-launch", "the program ended before its main()")


def _handed_over(process: Process, loaded: Loaded, image: Image) -> int:
    """The address of the main() of a program without symbols. Raises TargetError `no-main`."""
    if process.keeper.run_to(image.entry + loaded.bias, finally_=False):
        for each in image.segments:
            if each.executable and each.address <= image.entry < each.address + each.size:
                low = each.address + loaded.bias
                address = process.keeper.main_of(low, low + each.size)
                if address:
                    return address
    what = f"it cannot be told where the main() of {loaded.name} is, which has no symbols"
    raise TargetError("no-main", what, "stop it before its constructors run: -x evaltime=preinit")
