#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Make a Debian package of gilk: `tools/debian_package.py DIRECTORY` writes gilk_VERSION_amd64.deb there.

The package installs everything in /usr/lib/gilk, a virtual environment of Debian's own Python with the libraries that
gilk needs. So it depends only on Debian's packages, and interferes with no other.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import manual

from gilk.version import VERSION

ROOT = Path(__file__).resolve().parent.parent
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_HOME = Path("usr/lib/gilk")
_SITE = _HOME / "lib" / _PYTHON / "site-packages"
_COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
_DEPENDS = (_PYTHON, "binutils", "gcc", "libc6-dev")
_RECOMMENDS = ("man-db",)
_SUGGESTS = ("qemu-system-x86", "kmod", "make", "libelf1", "graphviz")  # for the lab, and to build the driver
_CONTROL = """\
Package: gilk
Version: {version}
Section: devel
Priority: optional
Architecture: amd64
Maintainer: gilk <gilk@localhost>
Installed-Size: {size}
Depends: {depends}
Recommends: {recommends}
Suggests: {suggests}
Description: put code of your choice anywhere in a running program
 gilk instruments any function, basic block or instruction of a live process or
 of the stock kernel, at the cost of a jump, and takes it out again without a
 trace. It counts, times, traces calls, runs D programs and weaves aspects.
"""
#: The script after installation: it compiles the bytecode on the machine itself; removal deletes it.
_AFTER = '#!/bin/sh\nset -e\n[ "$1" != configure ] || /usr/bin/{python} -m compileall -q /{site} || true\n'
_BEFORE = "#!/bin/sh\nset -e\nfind /{home} -name __pycache__ -type d -prune -exec rm -rf {{}} +\n"
_ENTRY = """\
#!/usr/lib/gilk/bin/python -P
import sys

from {module} import {function}

sys.exit({function}())
"""
_SHELLS = {
    "bash": "usr/share/bash-completion/completions/gilk", "zsh": "usr/share/zsh/vendor-completions/_gilk",
    "fish": "usr/share/fish/vendor_completions.d/gilk.fish",
}  # fmt: skip


def make(directory: Path) -> Path:
    """Build the package and return its file. Raises CalledProcessError if pip or dpkg-deb fails; they say why on
    standard error."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary)
        tree.chmod(0o755)
        _libraries(tree)
        lay_out(tree)
        made = directory / f"gilk_{VERSION}_amd64.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z3", "--build", str(tree), str(made))
    return made


def lay_out(tree: Path) -> None:
    """Put everything into ``tree`` except the libraries, which are there already."""
    for step in (_environment, _commands, _manual_pages, _completions, _documents, _settle_modes, _control):
        step(tree)


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def _libraries(tree: Path) -> None:
    """Install gilk and what it needs from PyPI. gilk comes from a copy of its sources, since setuptools writes files
    beside them."""
    with tempfile.TemporaryDirectory() as temporary:
        sources = Path(temporary)
        for name in ("pyproject.toml", "setup.py", "README.md"):
            shutil.copy(ROOT / name, sources)
        for name in ("LICENSES", "docs", "src"):
            shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
        _run(*pip, "--target", str(tree / _SITE), f"{sources}[web]")
    shutil.rmtree(tree / _SITE / "bin", ignore_errors=True)


def _environment(tree: Path) -> None:
    """Make the virtual environment by hand, for Debian's Python (PEP 405)."""
    place = tree / _HOME / "bin"
    place.mkdir(parents=True)
    (place / "python").symlink_to(f"/usr/bin/{_PYTHON}")
    (tree / _HOME / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")


def _commands(tree: Path) -> None:
    (tree / "usr/bin").mkdir(parents=True)
    for name, entry in _COMMANDS.items():
        module, _, function = entry.partition(":")
        script = tree / _HOME / "bin" / name
        script.write_text(_ENTRY.format(module=module, function=function))
        script.chmod(0o755)
        (tree / "usr/bin" / name).symlink_to(Path("../lib/gilk/bin") / name)


def _manual_pages(tree: Path) -> None:
    for name, text in manual.pages().items():
        place = tree / "usr/share/man" / f"man{name[-1]}" / f"{name}.gz"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(text.encode(), mtime=0))


def _completions(tree: Path) -> None:
    """Write the completion scripts as click 8.1 makes them, without its check of the version of bash."""
    for shell, place in _SHELLS.items():
        words = [sys.executable, "-P", "-m", "gilk"]
        environment = {**os.environ, "_GILK_COMPLETE": f"{shell}_source"}
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        (tree / place).write_text(done.stdout)


def _documents(tree: Path) -> None:
    place = tree / "usr/share/doc/gilk"
    place.mkdir(parents=True)
    (place / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))
    licences = "".join(f"\n{path.name}\n\n{path.read_text()}" for path in sorted((ROOT / "LICENSES").iterdir()))
    (place / "copyright").write_text(f"gilk is LGPL-2.1-or-later, its kernel driver GPL-2.0.\n{licences}")
    shutil.copytree(ROOT / "examples", place / "examples", ignore=shutil.ignore_patterns("__pycache__"))


def _settle_modes(tree: Path) -> None:
    """Set the modes of all files, whatever the umask of the user who builds the package."""
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _control(tree: Path) -> None:
    place = tree / "DEBIAN"
    sums = "".join(_sums(tree))
    size = sum(path.lstat().st_size for path in tree.rglob("*")) // 1024
    place.mkdir(mode=0o755)
    lists = {"depends": _DEPENDS, "recommends": _RECOMMENDS, "suggests": _SUGGESTS}
    joined = {name: ", ".join(packages) for name, packages in lists.items()}
    (place / "control").write_text(_CONTROL.format(version=VERSION, size=size, **joined))
    (place / "md5sums").write_text(sums)
    for name, text in (("postinst", _AFTER), ("prerm", _BEFORE)):
        (place / name).write_text(text.format(python=_PYTHON, site=_SITE, home=_HOME))
        (place / name).chmod(0o755)


def _sums(tree: Path) -> Iterator[str]:
    for path in sorted(each for each in tree.rglob("*") if each.is_file() and not each.is_symlink()):
        yield f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
