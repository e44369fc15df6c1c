# SPDX-License-Identifier: LGPL-2.1-or-later
"""A test of DTrace's suite: a D program or a shell script, the directives in its comments, and its expected output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_DIRECTIVE = re.compile(r"@@([a-z][a-z-]*)[ \t]*:?[ \t]*([^\n]*)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_KINDS = ("tst.", "err.", "drp.")
#: A probe description that names a provider of the kernel or of a process.
_ELSEWHERE = re.compile(
    r"\b(?:cpc|fbt|io|ip|lockstat|pid\d*|pid\$\w+|proc|rawfbt|rawtp|sched|sdt|syscall|tcp|udp|usdt|vminfo)(?:\$\w+)?:"
    r"|`[a-z]|\bcurthread\b|\bfbt\b|\bsyscall\b"
)
#: A script's command that changes the machine beyond the script's own processes and files.
_CHANGES_MACHINE = re.compile(
    r">\s*/(?:proc|sys)/|\b(?:sysctl|modprobe|insmod|rmmod|swapoff|iptables)\s|\bu?mount\s+\S"
    r"|\bip\s+(?:addr|link|netns|route)\b"
)
_MOST_TRIES = 10
#: The place of the programs that tests trace.
TRIGGERS = "test/triggers"
_BEGINS_ELSEWHERE = (
    "usdt",
    "pid",
    "syscall",
    "fbtprovider",
    "rawfbt",
    "io",
    "ip",
    "tcp",
    "udp",
    "lockstat",
    "sdt",
    "dtrace-util/link",
)


@dataclass(frozen=True)
class Case:
    """A test of the suite. ``name`` is its path below ``root``, the directory of the suite. ``directives`` has the
    text of each ``@@`` directive, by its name; the words of all ``@@tags`` are together."""

    root: Path
    name: str
    directives: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def kind(self) -> str:
        """The kind of the test: ``tst``, ``err`` (it must fail), ``drp`` (it must drop something) or ``demo``."""
        kind = self.path.name.split(".")[0] + "."
        return kind[:-1] if kind in _KINDS else "demo"

    @property
    def tag(self) -> str:
        """The error tag, or the kind of drop, that the test's name says to expect; "" if it names none."""
        found = re.match(r"(?:err|drp)\.([A-Z][A-Z0-9_]*)(?=\.|$)", self.path.name)
        return found[1] if found else ""

    @property
    def is_script(self) -> bool:
        return self.path.suffix == ".sh"

    @property
    def changes_the_machine(self) -> bool:
        """Whether the script changes a setting of the machine, which would stay changed if a deadline ended the
        script."""
        return self.is_script and bool(_CHANGES_MACHINE.search(self.path.read_text(errors="replace")))

    @property
    def trigger(self) -> str:
        """The program that the test traces, as a path below ``root``, and its arguments; "" without one. Scripts start
        most of their programs themselves."""
        given = self.directives.get("trigger", "")
        if given not in ("none", ""):
            return f"{TRIGGERS}/{given}"
        own = Path(self.name).with_suffix(".t")
        return str(own) if not given and os.access(self.root / own, os.X_OK) else ""

    @property
    def exclusions(self) -> list[Path]:
        """The files that say that the test, or all tests of its folder, is expected to fail or cannot run."""
        here = [self.beside(".x"), *(folder / "test.x" for folder in self.path.parents if folder != self.root)]
        return [each for each in here if each.is_relative_to(self.root) and each.exists()]

    @property
    def tries(self) -> int:
        """How many times the test may be run until it passes: once, or more if the test says so."""
        again = self.directives.get("reinvoke-failure", "")
        return 1 + min(int(again), _MOST_TRIES) if again.isdigit() else 1

    @property
    def names_a_module(self) -> bool:
        """Whether the test's text names something of a module of the kernel that the suite has loaded first."""
        names = "|".join(map(re.escape, modules(self.root)))
        words = _COMMENT.sub("", self.path.read_text(errors="replace"))
        return bool(names) and bool(re.search(rf"\b(?:{names})(?:_|`)", words))

    @property
    def stands_alone(self) -> bool:
        """Whether the test's text mentions neither the kernel nor a program to trace, so that the test runs
        anywhere."""
        words = _COMMENT.sub("", self.path.read_text(errors="replace"))
        where = self.name.removeprefix("test/unittest/")
        return not self.trigger and not _ELSEWHERE.search(words) and not where.startswith(_BEGINS_ELSEWHERE)

    def beside(self, suffix: str) -> Path:
        """The path of the file beside the test with this suffix; the variant for x86-64, if there is one."""
        special = self.path.with_name(f"{self.path.stem}.x86_64{suffix}")
        return special if special.exists() else self.path.with_suffix(suffix)


def modules(root: Path) -> list[str]:
    """The modules of the kernel that the suite has loaded before its tests run."""
    listed = root / "test" / "modules"
    return listed.read_text().split() if listed.exists() else []


def cases(root: Path) -> Iterator[Case]:
    """All tests below ``root``, in the order of their names."""
    for path in sorted((*root.rglob("*.d"), *root.rglob("*.sh"))):
        if path.name.startswith(_KINDS) or "demo" in path.relative_to(root).parts:
            yield read(root, path.relative_to(root).as_posix())


def read(root: Path, name: str) -> Case:
    """The test of this name, with its own directives; the files ``test.options`` in the folders above supply others."""
    directives: dict[str, str] = {}
    places = [
        root / name,
        *(folder / "test.options" for folder in (root / name).parents if folder.is_relative_to(root)),
    ]
    for place in places:
        text = place.read_text(errors="replace") if place.exists() else ""
        for word, value in _DIRECTIVE.findall(text):
            directives.setdefault(word, value.split("*/")[0].strip())
    return Case(root, name, directives)
