# SPDX-License-Identifier: LGPL-2.1-or-later
"""gilk reads the file that a process has mapped, not the file that has its name and number here."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gilk.image.elf import load
from gilk.targets import mapped_file
from gilk.targets.files import Files
from gilk.targets.maps import read_maps
from tests.behaviour.harness import mortal
from tests.programs.build import build

ROOT = Path(__file__).parents[2]
SLEEP = Path("/bin/sleep").resolve()
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
#: Prints about process argv[1], once it runs argv[2]: what is read of its program, what is read by the name, and both
#: inodes and devices.
LOOK = """\
import json, os, sys, time
from pathlib import Path
from gilk.image.elf import load
from gilk.engines.scan.subject import subjects
from gilk.targets.files import Files
from gilk.targets.maps import read_maps
pid, path = int(sys.argv[1]), Path(sys.argv[2])
deadline = time.monotonic() + 60
while os.readlink(f"/proc/{pid}/exe") != str(path) and time.monotonic() < deadline:
    time.sleep(0.01)
files = Files(pid)
main = files.loaded(read_maps(pid))[0]
(mapping,) = [m for m in read_maps(pid) if m.path == str(path) and m.executable]
here = path.stat()
(scanned,) = subjects(f"pid:{pid}", "program:*")[0]
print(json.dumps({
    "read": files.image(main.path).content.hex(), "path": str(main.path), "here": load(path).content.hex(),
    "scanned": load(scanned.path).content.hex(),
    "numbers": [[mapping.inode, mapping.device], [here.st_ino, here.st_dev]],
}))
"""


def looked(script: str, *given: Path) -> dict[str, Any]:
    """Run ``script`` in a mount namespace of its own; it leaves the process to look at in $PID, and its $1 is a
    directory. Returns the output of LOOK."""
    whole = f'{script}\n{sys.executable} -c "$LOOK" $PID "$1/program"; STATUS=$?; kill -9 $PID; exit $STATUS'
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", whole, "sh", *given]
    environment = {**os.environ, "LOOK": LOOK, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_file_of_the_same_name_and_inode_number_in_another_namespace_is_not_used(tmp_path: Path) -> None:
    """Each is the first file of a file system of its own."""
    found = looked(
        """
        set -e
        mount -t tmpfs ours "$1"; cp "$2" "$1/program"
        unshare --mount --propagation private sh -c '
            mount -t tmpfs theirs "$1"; cp "$3" "$1/program"; exec "$1/program" 300
        ' sh "$@" >/dev/null &
        PID=$!
        set +e
        """,
        tmp_path, build("shortblocks"), SLEEP,
    )  # fmt: skip
    (inode, device), (inode_here, device_here) = found["numbers"]
    assert inode == inode_here and device != device_here, "it does not look alike: this tests nothing"
    theirs = load(SLEEP).content.hex()
    assert found["here"] == load(build("shortblocks")).content.hex()
    assert found["read"] == found["scanned"] == theirs


def test_mapped_files_of_overlayfs_are_found_by_name(tmp_path: Path) -> None:
    """In containers, overlayfs shows a device that mappings do not show."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    found = looked(
        """
        set -e
        mount -t tmpfs upper "$2"; mkdir "$2/upper" "$2/work"
        mount -t overlay overlay -o "lowerdir=$3,upperdir=$2/upper,workdir=$2/work" "$1"
        cp "$4" "$1/program"; "$1/program" 300 >/dev/null &
        PID=$!
        set +e
        """,
        tmp_path / "merged", tmp_path / "upper", tmp_path / "lower", SLEEP,
    )  # fmt: skip
    assert found["read"] == load(SLEEP).content.hex()
    assert found["path"] == str(tmp_path / "merged" / "program")


def test_a_mapping_in_gilk_identifies_a_file_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mapping alone must suffice, as if no number of stat(2) were reliable."""
    monkeypatch.setattr(mapped_file, "_by_number", lambda *_: False)
    monkeypatch.setattr(mapped_file, "_unasked", lambda *_: False)
    gc.collect()  # closes files of other tests
    before = len(os.listdir("/proc/self/fd"))
    with mortal([build("hot8")]) as program:
        files = Files(program.pid)
        main = files.loaded(read_maps(program.pid))[0]
        assert (main.path, main.main) == (build("hot8"), True)
        files.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("become", ["a pipe", "a device", "another program", "nothing"])
def test_a_file_name_that_became_a_pipe_or_device_is_not_opened(become: str, tmp_path: Path) -> None:
    """It is neither waited for nor read."""
    copy = tmp_path / "program"
    shutil.copy(build("hot8"), copy)
    with mortal([copy]) as program:
        copy.unlink()
        if become == "a pipe":
            os.mkfifo(copy)
        elif become == "a device":
            os.mknod(copy, 0o020600, os.makedev(1, 5))
        elif become == "another program":
            shutil.copy(build("shortblocks"), copy)
        files = Files(program.pid)
        main = files.loaded(read_maps(program.pid))[0]
        assert files.image(main.path).content == load(build("hot8")).content
        files.close()
