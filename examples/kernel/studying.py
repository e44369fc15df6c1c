# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that the studies of a kernel share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from gilk import Kernel
from gilk.session.kernel_session import KernelSession

HERE = Path(__file__).parent


def directory(words: list[str]) -> Path:
    """The directory for the pictures: the first argument, or the current one. It is created if it is missing."""
    path = Path(words[1] if len(words) > 1 else ".").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def compiled(name: str, place: Path) -> Path:
    """The program of NAME.c, linked statically, so that it needs nothing of the machine it runs on."""
    made = place / name
    subprocess.run(["cc", "-O2", "-static", "-o", made, HERE / f"{name}.c", "-lm"], check=True)
    return made


def shell(kernel: Kernel, script: str) -> str:
    """The output of a script that runs on the kernel's machine. Raises RuntimeError if it fails."""
    status, out, said = kernel.target.link.run(["sh", "-ec", script])
    if status:
        raise RuntimeError(f"status {status}: {said.decode(errors='replace').strip()}")
    return out.decode(errors="replace")


def text_of(kernel: Kernel, names: Iterable[str]) -> bytes:
    """The code of the functions, as it is in the kernel's memory now."""
    spans = [kernel.function(name).function for name in names]
    return b"".join(kernel.target.link.read_core([(each.start, each.end - each.start) for each in spans]))


def samples_of(kernel: Kernel, session: KernelSession, command: list[str]) -> pa.Table:
    """Run a command on the kernel's machine. Returns all samples of the session, which is then closed. Raises
    RuntimeError if the command fails."""
    kernel.start(command)
    parts = []
    while kernel.status is None:
        parts.append(session.poll())
    parts.append(session.close())
    if kernel.status:
        raise RuntimeError(f"{command[0]} ended with status {kernel.status}")
    return pa.concat_tables(parts, promote_options="default").sort_by("time")


def figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, for save(); no window is opened."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns)


def save(made: Any, path: Path) -> None:
    made.savefig(path, dpi=120)
    print(f"drawn in {path}")
