# SPDX-License-Identifier: LGPL-2.1-or-later
"""One command of gilk in a directory of its own, which identifies all processes that it starts, and the judgement on
its end."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.behaviour.harness import ENVIRONMENT, Ran, plain
from tests.fuzz.commands import Asked
from tests.fuzz.subjects import Subject

LIMIT = 120  # seconds that a command may take
_MARK = "GILK_FUZZ_PLACE"
_ERROR = re.compile(r"^(?:gilk|dtrace|gilk-dtrace): .*\(([a-z][a-z-]+)\)$", re.MULTILINE)
_BAD_D = re.compile(r"^dtrace: (invalid probe specifier|failed to compile)", re.MULTILINE)  # DTrace's words
#: These errors would be faults of gilk; each has a paragraph that says so, or cannot be true here.
FAULTS = frozenset({"keeper-gone", "not-understood", "stream-corrupt", "no-such-process", "session-silent", "system",
                    "does-not-link", "code-changed", "cannot-launch", "bad-request", "usage"})  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """The end of a command. ``status`` is None if it was killed after LIMIT seconds; ``slugs`` are those of the
    errors it printed."""

    status: int | None
    out: bytes
    err: str

    @property
    def slugs(self) -> frozenset[str]:
        return frozenset(_ERROR.findall(self.err)) | ({"bad-d"} if _BAD_D.search(self.err) else set())


class Place:
    """A directory for the files of a round; ``env`` marks every process that is started there."""

    def __init__(self) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.path = Path(self._held.name)
        self.env = {**os.environ, **ENVIRONMENT, _MARK: self.path.name}

    def command(self, asked: Asked, target: Sequence[str], number: int = 0) -> list[str]:
        """The words of the command. ``target`` is -p and a number, or -- and a program."""
        for name, text in asked.files:
            (self.path / name.replace("FILE", f"f{number}")).write_text(text)
        words = [word.replace("FILE", f"{self.path}/f{number}") for word in asked.words]
        if asked.kind == "dtrace" and target[0] == "--":
            target = ["-c", shlex.join(target[1:])]
        return [sys.executable, "-m", "gilk", *words, *target]

    def start(self, words: Sequence[str], number: int = 0) -> subprocess.Popen[bytes]:
        """Start a command; its output goes to files of the place."""
        with open(self.path / f"out{number}", "wb") as out, open(self.path / f"err{number}", "wb") as err:
            return subprocess.Popen(
                words, env=self.env, cwd=self.path, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    def ended(self, status: int | None, number: int = 0) -> Ended:
        out, err = ((self.path / f"{name}{number}").read_bytes() for name in ("out", "err"))
        return Ended(status, out, err.decode(errors="replace"))

    def run(self, words: Sequence[str], stdin: bytes) -> Ended:
        """Run a command to its end."""
        (self.path / "in").write_bytes(stdin)
        with open(self.path / "in", "rb") as source, open(self.path / "out0", "wb") as out, \
             open(self.path / "err0", "wb") as err:  # fmt: skip
            process = subprocess.Popen(words, env=self.env, cwd=self.path, stdin=source, stdout=out, stderr=err)
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return self.ended(None)
        return self.ended(status)

    def processes(self) -> list[str]:
        """The processes of the place that still exist."""
        mark = f"{_MARK}={self.path.name}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(f"{entry.name}: {(entry / 'cmdline').read_bytes()!r}")
                except OSError:
                    continue
        return found

    def close(self) -> None:
        self._held.cleanup()


@cache
def plainly(subject: Subject) -> Ran:
    return plain(subject.command, subject.stdin)


def faults(asked: Asked, ended: Ended) -> list[str]:
    """The faults that no command may show, whatever it was asked."""
    found = []
    if ended.status is None:
        found.append("it does not end")
    if "Traceback (most recent call last)" in ended.err:
        found.append("a traceback")
    if wrong := ended.slugs & FAULTS:
        found.append(f"an error that cannot be: {sorted(wrong)}")
    if ended.slugs and ended.status == 0:
        found.append("an error, and status 0")
    return found


def differs(asked: Asked, subject: Subject, ended: Ended) -> list[str]:
    """The differences between a launched program's run and the plain one; a refused command may not have run it."""
    expected = plainly(subject)
    if (
        "--dry-run" in asked.words
        or (ended.slugs and not ended.out)
        or ("--json" in asked.words and asked.kind == "dtrace" and ended.status == 1)
    ):
        return []
    found = []
    ours = ended.out.startswith(expected.stdout) if asked.says else ended.out == expected.stdout
    if not ours:
        found.append(f"output: {ended.out[-300:]!r}, not {expected.stdout[-300:]!r}")
    if ended.status != expected.status and not ended.slugs and asked.kind in ("run", "trace", "weave"):
        found.append(f"status {ended.status}, not {expected.status}")
    return found
