# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the studies of a kernel have in common."""

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
    """Where the pictures go: the first argument, or here."""
    path = Path(words[1] if len(words) > 1 else ".").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def compiled(name: str, place: Path) -> Path:
    """The program of NAME.c, which needs nothing of the machine it runs on."""
    made = place / name
    subprocess.run(["cc", "-O2", "-static", "-o", made, HERE / f"{name}.c", "-lm"], check=True)
    return made


def shell(kernel: Kernel, script: str) -> str:
    """What a script says that runs beside the kernel."""
    status, out, said = kernel.target.link.run(["sh", "-ec", script])
    if status:
        raise RuntimeError(f"status {status}: {said.decode(errors='replace').strip()}")
    return out.decode(errors="replace")


def text_of(kernel: Kernel, names: Iterable[str]) -> bytes:
    """Functions as they are in the kernel's memory now."""
    spans = [kernel.function(name).function for name in names]
    return b"".join(kernel.target.link.read_core([(each.start, each.end - each.start) for each in spans]))


def samples_of(kernel: Kernel, session: KernelSession, command: list[str]) -> pa.Table:
    """Run a command beside the kernel; all samples of the session, which ends with it."""
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
