# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run a test inside a virtual machine of its own: its shell, the programs that it starts, and its ``dtrace``, which
door.py provides."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from conformance_suite.comparison import Ran
from conformance_suite.door import Door

_MEMORY = 2048  # MiB
#: Takes connections at the port of ssh, where tests expect a service, and closes them. It listens before it goes into
#: the background, so it answers whoever comes later.
_SERVICE = """
import os, socket
listening = socket.create_server(("::", 22), family=socket.AF_INET6, dualstack_ipv6=True)
if os.fork():
    os._exit(0)
os.closerange(0, listening.fileno())
while True:
    listening.accept()[0].close()
"""
#: For tests of io, which mount; the machine has no device manager, and loads no module by itself.
_MODULES = ("loop", "xfs")
_PREPARING = 60.0  # seconds that each of these may take
#: Starts the program that is to run already, and has its pid in the place of $_pid in what follows.
_BEGUN = """{trigger} </dev/null >/dev/null 2>&1 &
begun=$!
export dt_flags=${{dt_flags//\\$_pid/$begun}}
{words}
status=$?
kill -KILL $begun 2>/dev/null
exit $status
"""


def in_guest(
    words: list[str], trigger: str, directory: Path, environment: Mapping[str, str], deadline: float, folder: Path,
    command: list[str], modules: Sequence[str] = (),
) -> Ran:  # fmt: skip
    """Run a command in ``directory`` there; the result is as if it had run here. ``trigger``: a program that begins
    before, if it is not ""; its pid is $_pid in ``words``. ``folder`` is shared with the machine. ``modules``: modules
    of the kernel that are loaded first, as far as there are any."""
    from gilk.lab import Machine  # imported here: other tests need nothing of gilk but its command
    from gilk.runs.elsewhere import reach

    with ExitStack() as stack:
        door = Door(folder, command)
        stack.callback(door.close)
        machine = reach(Machine(cpus=2, memory=_MEMORY, network=True, rw=(folder,)))
        stack.callback(machine.close)
        given = {**environment, "PATH": f"{door.inside}:{environment['PATH']}"}
        shown = shlex.join(words).replace("$_pid", "'\"$begun\"'")  # join() has quoted each word with a $
        text = _BEGUN.format(trigger=trigger, words=shown) if trigger else f"exec {shown}"
        out, errors = bytearray(), bytearray()
        for prepared in (("modprobe", "-a", *_MODULES, *modules), (sys.executable, "-I", "-S", "-c", _SERVICE)):
            machine.link.run(prepared, timeout=_PREPARING)
        process = machine.link.spawn(
            ["bash", "-c", text], out.extend, errors.extend, directory=str(directory), environment=given
        )
        process.end_input()
        status = process.wait(deadline)
        return Ran(status, out.decode(errors="replace"), errors.decode(errors="replace"))
