# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Debian package: apt installs it in a system that has nothing but Debian's base, and removes it without a
trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gilk.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
LAY_OUT = "import sys; from pathlib import Path; import debian_package; debian_package.lay_out(Path(sys.argv[1]))"
MIRROR = "http://deb.debian.org/debian"
#: Commands in the new system: a user's first steps, and then the removal.
INSIDE = """\
set -e
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
apt-get update -qq
apt-get install -y -qq --no-install-recommends /tmp/gilk.deb
gilk --version
CC=/nowhere/cc gilk run -i bash:echo_builtin:entry=count -- bash -c 'echo 1; echo 2'
gilk dtrace -q -n 'BEGIN { printf("D works\\n"); exit(0); }'
gilk-dtrace -V
apt-get purge -y -qq gilk
test ! -e /usr/lib/gilk
test ! -e /usr/bin/gilk
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files without the libraries, which come from PyPI."""
    place = tmp_path_factory.mktemp("tree")
    words = [sys.executable, "-c", LAY_OUT, place]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, check=True, timeout=240)
    return place


def test_the_package_has_each_command(tree: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {path.name for path in (tree / "usr/bin").iterdir()} == set(scripts)
    for name in scripts:
        script = tree / "usr/bin" / name
        assert os.access(script, os.X_OK)
        assert script.read_text().startswith("#!/usr/lib/gilk/bin/python")


def test_manual_pages_and_completions_are_in_their_directories(tree: Path) -> None:
    pages = {path.name for path in (tree / "usr/share/man/man1").iterdir()}
    assert pages == {"gilk.1.gz", *(f"gilk-{name}.1.gz" for name in COMMANDS)}
    places = ("bash-completion/completions/gilk", "zsh/vendor-completions/_gilk", "fish/vendor_completions.d/gilk.fish")
    for place in places:
        assert "_GILK_COMPLETE" in (tree / "usr/share" / place).read_text()


def test_dpkg_builds_the_package(tree: Path, tmp_path: Path) -> None:
    made = tmp_path / "gilk.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, made], check=True, capture_output=True)
    listed = subprocess.run(["dpkg-deb", "-c", made], check=True, capture_output=True, text=True).stdout
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}
    assert not [line for line in listed.splitlines() if line[0] != "l" and "w" in (line[5], line[8])]
    sums = subprocess.run(["md5sum", "--quiet", "-c", "DEBIAN/md5sums"], cwd=tree, capture_output=True, text=True)
    assert (sums.returncode, sums.stdout + sums.stderr) == (0, "")


@pytest.mark.stress
@pytest.mark.timeout(3000)
def test_the_package_installs_in_a_minimal_debian(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools/debian_package.py", tmp_path], check=True, timeout=900)
    system = tmp_path / "system"
    words = ["debootstrap", "--variant=minbase", "bookworm", system, MIRROR]
    subprocess.run(words, check=True, capture_output=True, timeout=1200)
    shutil.copy(next(tmp_path.glob("gilk_*.deb")), system / "tmp/gilk.deb")
    shutil.copy("/etc/resolv.conf", system / "etc/resolv.conf")
    shutil.copytree("/etc/apt/apt.conf.d", system / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    mounts = 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; exec chroot "$1" sh -c "$2"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounts, "sh", system, INSIDE], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "    2  bash:echo_builtin:entry" in done.stderr  # the report about a program that has the output
    assert "D works" in done.stdout
