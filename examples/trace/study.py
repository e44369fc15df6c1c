# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that the studies of traces share: they run gilk's commands, and find where in a tree of calls the time
went."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Node = dict[str, Any]
HERE = Path(__file__).parent


def directory(words: list[str]) -> Path:
    """The directory for the files: the first argument, or the current one. It is created if it is missing."""
    path = Path(words[1] if len(words) > 1 else ".").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def gilk(*words: str | Path, where: Path, status: int = 0) -> str:
    """Run gilk in a directory, print its output, and return it."""
    line = [str(word) for word in words]
    print(f"\n$ gilk {shlex.join(line)}", flush=True)
    done = run(line, where, status)
    print(done, end="", flush=True)
    return done


def asked(*words: str | Path, where: Path, status: int = 0) -> Any:
    """The answer of a gilk command with --json, parsed."""
    return json.loads(run([*map(str, words), "--json"], where, status))


def run(words: list[str], where: Path, status: int = 0) -> str:
    """The output of gilk, with its report. Raises RuntimeError if it ends with another status."""
    command = [sys.executable, "-m", "gilk", *words]
    done = subprocess.run(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != status:
        raise RuntimeError(f"gilk {words[0]} ended with status {done.returncode}: {done.stdout}")
    return done.stdout


def nodes(top: list[Node], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every node of a tree, with the path of functions that leads to it, itself included."""
    for node in top:
        inner = (*path, node["function"])
        yield inner, node
        yield from nodes(node["children"], inner)


def heaviest(node: Node) -> list[Node]:
    """The path from a node to where the time was spent: in each node the child that took longest, until a node
    itself took longer than that child."""
    found = [node]
    while found[-1]["children"]:
        longest = max(found[-1]["children"], key=lambda child: child["total"])
        if longest["total"] < found[-1]["self"]:
            break
        found.append(longest)
    return found
