# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs in a kernel that is there before them and after them."""

from __future__ import annotations

from gilk.errors import MachineGone
from gilk.runs.run import Run
from gilk.targets.kernel.channel import Sink
from gilk.values import dataclass


@dataclass
class KernelGuest(Run):
    """A run that leaves the kernel and its machine to others. The command's output is given to ``take``; the command is
    killed when the run ends."""

    take: Sink | None = None

    def _start_command(self) -> None:
        if self.elsewhere is not None and self.command:
            self.elsewhere.start(self.command, self.take)

    def take_out(self) -> bool | None:
        if self.elsewhere is not None and self.command:
            try:
                self.elsewhere.kill()
            except MachineGone as error:
                self._lose(error)
        return super().take_out()

    def _leave(self) -> None:
        """Do nothing: others go on to use the kernel."""
