# SPDX-License-Identifier: LGPL-2.1-or-later
"""A test of the suite: a D program or a shell script, what is said about it in comments, and what it should give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_DIRECTIVE = re.compile(r"@@([a-z][a-z-]*)[ \t]*:?[ \t]*([^\n]*)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_KINDS = ("tst.", "err.", "drp.")
#: A description that names a provider of the kernel's, or of a process.
_ELSEWHERE = re.compile(
    r"\b(?:cpc|fbt|io|ip|lockstat|pid\d*|pid\$\w+|proc|rawfbt|rawtp|sched|sdt|syscall|tcp|udp|usdt|vminfo)(?:\$\w+)?:"
    r"|`[a-z]|\bcurthread\b|\bfbt\b|\bsyscall\b"
)
#: A script that sets something of the machine's, beyond its own processes and files.
_CHANGES_MACHINE = re.compile(
    r">\s*/(?:proc|sys)/|\b(?:sysctl|modprobe|insmod|rmmod|swapoff|iptables)\s|\bu?mount\s+\S"
    r"|\bip\s+(?:addr|link|netns|route)\b"
)
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
    """``name``: its path below the suite. ``directives`` by name; ``tags``: the words of all ``@@tags``."""

    root: Path
    name: str
    directives: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def kind(self) -> str:
        """``tst``, ``err`` (it is to fail), ``drp`` (something is to be dropped) or ``demo``."""
        kind = self.path.name.split(".")[0] + "."
        return kind[:-1] if kind in _KINDS else "demo"

    @property
    def tag(self) -> str:
        """The tag that its name says it is refused with, or the kind of drop; "" without one."""
        found = re.match(r"(?:err|drp)\.([A-Z][A-Z0-9_]*)(?=\.|$)", self.path.name)
        return found[1] if found else ""

    @property
    def is_script(self) -> bool:
        return self.path.suffix == ".sh"

    @property
    def changes_the_machine(self) -> bool:
        """Whether it sets something of the machine's, which stays so when a deadline ends it."""
        return self.is_script and bool(_CHANGES_MACHINE.search(self.path.read_text(errors="replace")))

    @property
    def trigger(self) -> str:
        """The program that it traces, or "" without one; scripts start theirs themselves."""
        given = self.directives.get("trigger", "none")
        return "" if self.is_script or given in ("none", "") else given

    @property
    def stands_alone(self) -> bool:
        """Whether it needs no kernel and no program to trace, as far as its text tells."""
        words = _COMMENT.sub("", self.path.read_text(errors="replace"))
        where = self.name.removeprefix("test/unittest/")
        return not self.trigger and not _ELSEWHERE.search(words) and not where.startswith(_BEGINS_ELSEWHERE)

    def beside(self, suffix: str) -> Path:
        """A file of the same name; one for x86-64 before the general one."""
        special = self.path.with_name(f"{self.path.stem}.x86_64{suffix}")
        return special if special.exists() else self.path.with_suffix(suffix)


def cases(root: Path) -> Iterator[Case]:
    """All tests below ``root``, by name."""
    for path in sorted((*root.rglob("*.d"), *root.rglob("*.sh"))):
        if path.name.startswith(_KINDS) or "demo" in path.relative_to(root).parts:
            yield read(root, path.relative_to(root).as_posix())


def read(root: Path, name: str) -> Case:
    """With the directives of the test, and those of the files ``test.options`` above it, which count for less."""
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
