# SPDX-License-Identifier: LGPL-2.1-or-later
"""A script of a collection: a D program, or a script in shell or Perl that runs dtrace, and how it is run here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"/\*[\s\S]*?\*/|^[ \t]*#.*$|\"(?:[^\"\\\n]|\\.)*\"", re.MULTILINE)
_DTRACE = re.compile(r"/usr/s?bin/dtrace\b")
#: A description of a process's probes: of a provider that processes have, or with the process's number at its end.
_OF_PROCESS = re.compile(r"\b(?:syscall|proc|plockstat\w*|pid\w*|[a-z]\w*\$\w+|[a-z_]+\*)(?:\$\w+)?:")
#: A description or a name that only a kernel has.
_OF_KERNEL = re.compile(
    r"\b(?:cifs|fbt|fc|fsinfo|io|ip|iscsi\*?|lockstat|mib|nfs\w*|sched|sdt|smb\w*|srp|sysinfo|tcp|udp|vfs|vminfo|xpv)"
    r":\w*[\w*?-]*:|\bcurthread\b|\bstack\(|\bcurcpu\b"
)
_KERNEL_NAME = re.compile(r"`[a-z]\w*\b(?!`)")  # in shell scripts, quotes of that kind enclose commands
_READ = 200_000  # bytes of a file that are looked at


@dataclass(frozen=True)
class Script:
    """A script. ``name`` is its path below the collection. ``wraps``: a script of another language that runs dtrace."""

    root: Path
    name: str
    text: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def wraps(self) -> bool:
        if self.text.startswith("dtrace "):  # a command line, in a file that is called as a program in D
            return True
        return "dtrace" not in self.text.partition("\n")[0] and self.path.suffix != ".d"

    @property
    def interpreter(self) -> str:
        """The program that runs a script which wraps dtrace."""
        return "perl" if "perl" in self.text.partition("\n")[0] else "bash"

    @property
    def takes_a_command(self) -> bool:
        """Whether it is a shell script that runs the command that its arguments give."""
        return self.wraps and '"$*"' in self.text and "command" in self.text

    @property
    def is_about_a_process(self) -> bool:
        return bool(_OF_PROCESS.search(_COMMENT.sub("", self.text)))

    @property
    def is_about_a_kernel(self) -> bool:
        text = _COMMENT.sub("", self.text)
        return bool(_OF_KERNEL.search(text) or (not self.wraps and _KERNEL_NAME.search(text)))

    @property
    def options(self) -> list[str]:
        """The options of dtrace in the first line, without -s, which takes the script itself."""
        if not self.text.startswith("#!"):
            return []
        _, *words = self.text.partition("\n")[0][2:].split() or [""]
        return [f"-{letters}" for word in words if (letters := word.lstrip("-").removesuffix("s"))]

    def running(self, tool: Path) -> str:
        """The text of a shell script that runs ``tool`` in the place of dtrace."""
        return _DTRACE.sub(str(tool), self.text)


def scripts(root: Path) -> Iterator[Script]:
    """All scripts below ``root``, in the order of their names. Links to scripts elsewhere are left out."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(root).parts:
            text = path.read_bytes()[:_READ].decode("utf-8", "surrogateescape")
            is_script = path.suffix == ".d" or (text.startswith("#!") and _DTRACE.search(text))
            if is_script:
                yield Script(root, path.relative_to(root).as_posix(), text)
