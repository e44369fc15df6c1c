# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace that a page asks for, and the command line and the Python code that make the same trace."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from gilk.values import dataclass

_PYTHON: Final = """\
import gilk

tracing = gilk.prepare_trace([{pid}], output={file!r}, start={start!r}, stop={stop!r}{more})
tracing.begin()
tracing.wait(None, stop=lambda: False, show=lambda progress: None)
print(gilk.trace_report(tracing, tracing.finish()).render())"""


_OF_KERNEL: Final = """\
import gilk

tracing = gilk.prepare_trace(command={command!r}, output={file!r}, start={start!r}, stop={stop!r}, kernel={kernel!r},
    machine={machine!r}{more})
tracing.begin()
tracing.wait(None, stop=lambda: False, show=lambda progress: None)
print(gilk.trace_report(tracing, tracing.finish()).render())"""


@dataclass(frozen=True, slots=True)
class KernelTraceAsked:
    """The request for a trace of the kernel of ``machine``. ``scope``: globs of its functions, empty for all.
    ``workload``: a command for the shell there, or ''. ``depth``: 0 for all levels.
    """

    start: str
    stop: str
    scope: tuple[str, ...]
    depth: int
    workload: str
    machine: str

    def command(self, file: Path) -> str:
        words = ["gilk", "trace", "--on", self.machine, *(f"--kernel={glob}" for glob in self.scope or ("*",))]
        words += ["--start", self.start, "--stop", self.stop, *(["--depth", str(self.depth)] if self.depth else [])]
        return shlex.join([*words, "-o", str(file), *(["--", *self._words] if self.workload else [])])

    def python(self, file: Path) -> str:
        more = f", depth={self.depth}" if self.depth else ""
        kernel = list(self.scope or ("*",))
        return _OF_KERNEL.format(
            command=self._words,
            file=str(file),
            start=self.start,
            stop=self.stop,
            kernel=kernel,
            more=more,
            machine=self.machine,
        )

    @property
    def _words(self) -> list[str]:
        return ["sh", "-c", self.workload] if self.workload else []


@dataclass(frozen=True, slots=True)
class TraceAsked:
    """The request for a trace of a process, with the options of `gilk trace`. ``depth``: 0 for all levels."""

    start: str
    stop: str
    scope: tuple[str, ...]
    skip: tuple[str, ...]
    depth: int
    everything: bool

    def command(self, pid: str, file: Path) -> str:
        words = ["gilk", "trace", "-p", pid, "--start", self.start, "--stop", self.stop]
        words += [word for glob in self.scope for word in ("--scope", glob)]
        words += [word for glob in self.skip for word in ("--skip", glob)]
        words += ["--depth", str(self.depth)] if self.depth else []
        words += ["--all"] if self.everything else []
        return shlex.join([*words, "-o", str(file)])

    def python(self, pid: str, file: Path) -> str:
        more = {"scope": list(self.scope), "skip": list(self.skip), "everything": self.everything, "depth": self.depth}
        chosen = "".join(f", {name}={value!r}" for name, value in more.items() if value)
        return _PYTHON.format(pid=pid, file=str(file), start=self.start, stop=self.stop, more=chosen)
