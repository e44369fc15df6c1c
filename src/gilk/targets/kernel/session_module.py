# SPDX-License-Identifier: LGPL-2.1-or-later
"""A kernel module with code that a session's instruments call, loaded until the session ends.

A minder, a process beside gilk's, waits for the end of gilk's process, and unloads the module then: so it is unloaded
even if gilk is killed.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Sequence

from gilk.errors import MachineGone, TargetError
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.instruments import load_module
from gilk.targets.kernel.link import Link, RelayLink
from gilk.toolchain.kernel_instrument import ModuleFile

#: The minder's input ends when gilk's process does. The driver holds the module until all code that leads there is out.
_MINDER = (
    'trap "" INT TERM HUP; echo ready; read none; n=0; while [ $n -lt 600 ] && [ -d /sys/module/$0 ]; do '
    "rmmod $0 2>/dev/null || sleep 0.1; n=$((n+1)); done"
)
_READY = b"ready"
_LONGEST = 60.0  # seconds


class SessionModule:
    """A loaded module; ``functions`` are the addresses of its functions. ``parameters``: NAME=VALUE for the module.
    Raises TargetError `driver-load-failed`."""

    def __init__(
        self, link: Link, driver: Driver, module: ModuleFile, rings: int, parameters: Sequence[str] = ()
    ) -> None:
        self.name, self._link = module.name, link
        text = load_module(link, driver, module.name, module.content, rings, parameters)
        self.functions = {name: text + at for name, at in module.functions.items()}
        self._end = _mind(link, module.name)
        driver.hold(min(self.functions.values()))

    def parameter(self, name: str) -> int:
        """The value of a parameter that the module offers. Raises OSError."""
        return int(self._link.read_file(f"/sys/module/{self.name}/parameters/{name}"))

    def set(self, name: str, value: int) -> None:
        """Set a parameter of the module. Raises TargetError `driver-busy`."""
        path = f"/sys/module/{self.name}/parameters/{name}"
        status, _, said = self._link.run(["sh", "-c", f"echo {value:#x} > {path}"])
        if status:
            raise TargetError("driver-busy", f"cannot write {path}: {said.decode(errors='replace').strip()}")

    def unload(self) -> None:
        """Unload the module; the driver's client, which holds it, must have been closed."""
        with contextlib.suppress(OSError, TargetError, MachineGone, subprocess.TimeoutExpired):
            self._end()


def _mind(link: Link, name: str) -> Callable[[], None]:
    """Start the minder; returns a function that ends its wait and has it unload the module."""
    command = ["sh", "-c", _MINDER, name]
    if isinstance(link, RelayLink):
        said = bytearray()
        far = link.spawn(["setsid", "-w", *command], said.extend, _nothing)  # else the relay's end would kill it
        if not link.channel.until(lambda: _READY in said, _LONGEST):
            raise TargetError("driver-load-failed", f"nobody there waits to unload {name}")

        def end_far() -> None:
            far.end_input()
            far.wait(_LONGEST)

        return end_far
    near = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def end_near() -> None:
        near.communicate(timeout=_LONGEST)

    return end_near


def _nothing(data: bytes | bytearray) -> None:
    """Discard output."""
