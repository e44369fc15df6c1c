# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the studies of traces have in common: gilk's commands, and where in a tree of calls the time went."""

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
    """Where files go: the first argument, or here."""
    path = Path(words[1] if len(words) > 1 else ".").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def gilk(*words: str | Path, where: Path, status: int = 0) -> str:
    """Run gilk in a directory, and show what it prints; that is also returned."""
    line = [str(word) for word in words]
    print(f"\n$ gilk {shlex.join(line)}", flush=True)
    done = run(line, where, status)
    print(done, end="", flush=True)
    return done


def asked(*words: str | Path, where: Path, status: int = 0) -> Any:
    """What gilk answers with --json."""
    return json.loads(run([*map(str, words), "--json"], where, status))


def run(words: list[str], where: Path, status: int = 0) -> str:
    """What gilk prints, its report included; RuntimeError if it ends with another status."""
    command = [sys.executable, "-m", "gilk", *words]
    done = subprocess.run(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != status:
        raise RuntimeError(f"gilk {words[0]} ended with status {done.returncode}: {done.stdout}")
    return done.stdout


def nodes(top: list[Node], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every node of a tree with the functions that lead to it, itself included."""
    for node in top:
        inner = (*path, node["function"])
        yield inner, node
        yield from nodes(node["children"], inner)


def heaviest(node: Node) -> list[Node]:
    """From a node on down: what took longest, and within that what took longest, to where the time was spent."""
    found = [node]
    while found[-1]["children"]:
        longest = max(found[-1]["children"], key=lambda child: child["total"])
        if longest["total"] < found[-1]["self"]:
            break
        found.append(longest)
    return found
