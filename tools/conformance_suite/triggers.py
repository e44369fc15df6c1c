# SPDX-License-Identifier: LGPL-2.1-or-later
"""Build the programs that tests trace and that scripts run, from the suite's sources, with the flags in
``test/triggers/Build``."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PLACE = Path("test") / "triggers"
_WORKLOADS = Path("test") / "utils"
_ALWAYS = ("-O2", "-std=gnu99", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-w")
_FLAGS = re.compile(r"^(\S+)_(CFLAGS|LDFLAGS|LIBS|PROV) *:= *(.*)$", re.MULTILINE)
_LONGEST = 120  # seconds that the compiler may take


@dataclass(frozen=True)
class Trigger:
    """A program that tests trace. ``providers`` are the files of D declarations of its USDT probes."""

    name: str
    compiler_flags: tuple[str, ...] = ()
    linker_flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


def triggers(root: Path) -> Iterator[Trigger]:
    """The programs that have one source file each. Programs that need the suite's own libraries are left out."""
    given: dict[tuple[str, str], tuple[str, ...]] = {}
    for name, what, words in _FLAGS.findall((root / _PLACE / "Build").read_text()):
        given[name, what] = tuple(words.split())
    for source in sorted((root / _PLACE).glob("*.c")):
        parts = [given.get((source.stem, what), ()) for what in ("CFLAGS", "LDFLAGS", "LIBS", "PROV")]
        if not any("$" in word for part in parts for word in part) and not source.stem.endswith("lib"):
            yield Trigger(source.stem, *parts)


def build(root: Path, command: list[str]) -> list[str]:
    """Build all programs that are not there yet. Returns a line for each that cannot be built. ``command`` takes the
    place of dtrace."""
    missing = [each for each in triggers(root) if not (root / _PLACE / each.name).exists()]
    return [f"{each.name}: {why}" for each in missing if (why := _built(root, each, command))] + _workloads(root)


def _workloads(root: Path) -> list[str]:
    """Build the workloads, programs at fixed addresses that scripts start and measure. Returns a line for each that
    cannot be built."""
    sources = [each for each in sorted((root / _WORKLOADS).glob("workload_*.c")) if not each.with_suffix("").exists()]
    steps = {each.stem: ["cc", *_ALWAYS, "-no-pie", "-o", each.stem, each.name] for each in sources}
    return [f"{name}: {why}" for name, step in steps.items() if (why := _failed(root / _WORKLOADS, step))]


def _built(root: Path, trigger: Trigger, command: list[str]) -> str:
    """Build a trigger. Returns why it could not be built, or ""."""
    compiled = f"{trigger.name}.o"
    headers = [[*command, "-h", "-o", _with(each, ".h"), "-xnolibs", "-s", each] for each in trigger.providers]
    objects = [_with(each, ".o") for each in trigger.providers]
    bound = [
        [*command, "-G", "-o", made, "-xnolibs", "-s", each, compiled]
        for made, each in zip(objects, trigger.providers, strict=True)
    ]
    flags = [word.replace("-Iuts", f"-I{root}/uts") for word in trigger.compiler_flags]
    steps = [
        *headers,
        ["cc", *_ALWAYS, *flags, "-c", "-o", compiled, f"{trigger.name}.c"],
        *bound,
        ["cc", *trigger.linker_flags, "-o", trigger.name, compiled, *objects, *flags, *trigger.libraries],
    ]
    return next((why for step in steps if (why := _failed(root / _PLACE, step))), "")


def _with(name: str, suffix: str) -> str:
    return str(Path(name).with_suffix(suffix))


def _failed(place: Path, words: list[str]) -> str:
    try:
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=_LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip().splitlines() or [f"{shlex.join(words)} ends with {done.returncode}"]
    return said[-1] if done.returncode else ""
