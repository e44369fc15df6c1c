# SPDX-License-Identifier: LGPL-2.1-or-later
"""Another user who may write to the directory of an output has put something under the names that gilk uses there.

gilk opens nothing of that: with a link it would write where only its own user may, a pipe would make it wait, and
another user's file can be read and changed by that user.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gilk.engines.dtrace.provided import write_header
from gilk.errors import StoreError
from gilk.outputs import fresh, replacing
from gilk.render import output, plot_draw
from gilk.render.plot import Picture, PlotKind, PlotLine
from gilk.trace.about import About, Tally
from gilk.trace.clock import Clock
from gilk.trace.samples import schema
from gilk.trace.store import Writer
from tests.security.partner import NOBODY, open_place

_SECRET = b"only ours\n"
_ABOUT = About("box", ("prog",), (100,), 5, 10**18, Clock(1, 2, 2.9), ())
_TALLY = Tally({}, drops=0, lost=0, nested=0, corrupt=0, duration=1, partial=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that others may write to, with a file in it that only the user of the tests may write to."""
    with open_place() as place:
        secret = place / "secret"
        secret.write_bytes(_SECRET)
        secret.chmod(0o600)
        place.chmod(0o777)
        yield place


def samples(path: Path) -> None:
    writer = Writer(path, schema(set()), _ABOUT)
    assert writer.close(_TALLY) == path, writer.trouble


def text(path: Path) -> None:
    assert output.write(path, ["some ", b"text"]) == 9


def header(path: Path) -> None:
    write_header([], [], path)


def picture(path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = (PlotLine("one", np.arange(2.0), np.arange(2.0), 2),)
    plot_draw.save(Picture(PlotKind.SCATTER, "title", "x", "y", lines), path.with_suffix(".png"))


WRITERS = {"samples": (samples, "out", (".partial", ".new")), "text": (text, "out", (".new",)),
           "header": (header, "out", (".new",)), "picture": (picture, "out.png", (".new",))}  # fmt: skip
CASES = [(writer, suffix) for writer, (_, _, suffixes) in WRITERS.items() for suffix in suffixes]


def a_link(at: Path, secret: Path) -> None:
    at.symlink_to(secret)


def a_dangling_link(at: Path, secret: Path) -> None:
    at.symlink_to(secret.with_name("elsewhere"))


def a_hard_link(at: Path, secret: Path) -> None:
    at.hardlink_to(secret)


def a_pipe(at: Path, _: Path) -> None:
    os.mkfifo(at, 0o666)


def a_file(at: Path, _: Path) -> None:
    at.write_bytes(b"of somebody else")
    at.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(at, NOBODY, NOBODY)


@pytest.mark.parametrize("plant", [a_link, a_dangling_link, a_hard_link, a_pipe, a_file])
@pytest.mark.parametrize(("writer", "suffix"), CASES)
def test_files_planted_beside_an_output_are_not_written_to(
    writer: str, suffix: str, plant: Callable[[Path, Path], None], place: Path
) -> None:
    write, name, _ = WRITERS[writer]
    made, secret = place / name, place / "secret"
    plant(place / f"{name}{suffix}", secret)
    before = secret.stat()
    write(place / "out")
    found = made.lstat()
    assert stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size > 0
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o666 & ~_umask())
    assert secret.read_bytes() == _SECRET
    assert (secret.stat().st_ino, secret.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(os.listdir(place)) == sorted([name, "secret"])


@pytest.mark.parametrize(("writer", "suffix"), [("samples", ".partial"), ("text", ".new"), ("header", ".new")])
def test_an_output_whose_temporary_name_is_blocked_is_an_error(writer: str, suffix: str, place: Path) -> None:
    write, name, _ = WRITERS[writer]
    (place / f"{name}{suffix}").mkdir()
    with pytest.raises((StoreError, OSError)) as caught:
        write(place / "out")
    assert isinstance(caught.value, OSError) or caught.value.slug == "cannot-write"
    assert sorted(os.listdir(place)) == sorted([f"{name}{suffix}", "secret"])


def test_samples_are_read_back_from_the_written_file_not_a_planted_one(place: Path) -> None:
    """Another user has put something else under the name meanwhile, which is not read, and stays as it is."""
    path = place / "out"
    writer = Writer(path, schema(set()), _ABOUT)
    partial = place / "out.partial"
    partial.unlink()
    partial.symlink_to(place / "secret")
    assert writer.close(_TALLY) == path, writer.trouble
    assert path.read_bytes()[:4] == b"PAR1"
    assert partial.is_symlink()
    assert (place / "secret").read_bytes() == _SECRET


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_name_taken_by_another_user_where_only_he_may_remove_it_is_an_error(place: Path) -> None:
    """In a directory like /tmp, the sticky bit keeps gilk from removing the name. Nothing is written to another
    user's file."""
    planted = place / "out.new"
    planted.write_bytes(b"his")
    planted.chmod(0o666)
    place.chmod(0o1777)
    words = ["import os, sys", "from pathlib import Path", "from gilk.outputs import fresh",
             "os.setuid(65533)", f"fresh(Path({str(planted)!r}))"]  # fmt: skip
    root = Path(__file__).resolve().parents[2] / "src"
    code = f"import sys; sys.path.insert(0, {str(root)!r}); " + "; ".join(words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode and "PermissionError" in done.stderr, done.stderr
    assert planted.read_bytes() == b"his"


def test_a_name_planted_again_and_again_does_not_make_gilk_wait(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = os.unlink

    def planted_again(path: Path) -> None:
        unlink(path)
        os.symlink(place / "secret", path)

    path = place / "out.new"
    path.symlink_to(place / "secret")
    monkeypatch.setattr(os, "unlink", planted_again)
    with pytest.raises(FileExistsError):
        fresh(path)
    assert (place / "secret").read_bytes() == _SECRET


def test_an_error_leaves_the_earlier_file_unchanged(place: Path) -> None:
    path = place / "secret"
    with pytest.raises(ValueError), replacing(path) as file:
        file.write(b"half")
        raise ValueError
    assert path.read_bytes() == _SECRET
    assert os.listdir(place) == ["secret"]


def _umask() -> int:
    kept = os.umask(0)
    os.umask(kept)
    return kept
