# SPDX-License-Identifier: LGPL-2.1-or-later
"""Root with the HOME of another user, as after sudo -E or su -m, runs no code of that user's; nor does the reverse
happen."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gilk import private
from gilk.cache import arrays
from gilk.cache import place as cache
from gilk.cache.blobs import load_blob, store_blob
from gilk.digest import SIZE, digest
from gilk.errors import ImageError
from gilk.lab import kernels
from tests.security.partner import open_place

OTHER = 65534
ROUNDS = 12
#: The output of a D program, and its output once another user has forged it, of the same length.
SAID, FORGED = "as it was written", "as another forged"
_EXCHANGE = 2  # RENAME_EXCHANGE, <linux/fs.h>
#: The command, for a system whose root has another home: the cache of the user who runs the tests is left alone.
COMMAND = """\
import pwd, sys, types
home = sys.argv.pop(1)
pwd.getpwuid = lambda uid: types.SimpleNamespace(pw_dir=home)
from gilk.cli.main import run
sys.exit(run())
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that other users can look into, wherever TMPDIR is."""
    with open_place() as place:
        yield place


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``root``, the home of root, and ``home``, that of another user."""
    for name in ("GILK_CACHE", "XDG_CACHE_HOME", "GILK_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(private, "_passed", {})
    for name in ("root", "home"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "home", OTHER, OTHER)
    for above in (tmp_path, *tmp_path.parents):  # pytest's are for root alone: others must reach theirs
        if above.name.startswith(("pytest-", "popen-", "test_")):
            above.chmod(0o755)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path / "root")))


def used() -> Path | None:
    try:
        return cache.cache_dir()
    except ImageError:
        return None


def test_the_home_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert used() == tmp_path / "root" / ".cache" / "gilk"
    assert private.complaints() == [f"{tmp_path}/home belongs to user {OTHER}"]
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("name", ["XDG_CACHE_HOME", "GILK_CACHE", "GILK_KERNELS"])
def test_directories_named_by_variables_obey_the_same_rules(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "root"))
    monkeypatch.setenv(name, str(tmp_path / "home" / "kept"))
    if name == "XDG_CACHE_HOME":
        assert used() == tmp_path / "root" / ".cache" / "gilk"
    elif name == "GILK_CACHE":
        assert used() is None
    else:
        with pytest.raises(ImageError, match=f"home belongs to user {OTHER}") as caught:
            kernels.kept()
        assert caught.value.slug == "cache-unusable"
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("home", [None, "", "relative", "/proc/no/such/home"])
def test_without_home_the_directory_in_passwd_is_used(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    assert used() == tmp_path / "root" / ".cache" / "gilk"
    assert private.complaints() == []


def test_a_home_behind_a_link_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("root")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert used() == tmp_path / "root" / ".cache" / "gilk"
    assert private.complaints() == []


@pytest.mark.parametrize("which", [".cache", ".cache/gilk", ".cache/gilk/kind", "file"])
@pytest.mark.parametrize("change", ["given", "written"])
def test_nothing_is_cached_where_another_user_can_write(
    which: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "root"))
    store_blob("kind", b"key", b"content")
    assert load_blob("kind", b"key") == b"content"
    kept = tmp_path / "root" / ".cache" / "gilk" / "kind"
    changed = next(kept.iterdir()) if which == "file" else tmp_path / "root" / which
    os.chown(changed, OTHER, OTHER) if change == "given" else changed.chmod(0o777)
    assert load_blob("kind", b"key") is None
    before = sorted(kept.iterdir())
    store_blob("kind", b"another key", b"content")
    assert (sorted(kept.iterdir()) == before) == (which != "file")


def as_another(work: Callable[[], None]) -> int:
    """Run ``work`` in a process of another user, which has root's HOME, as after su without -l. Returns its exit
    status."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
            work()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_without_a_safe_directory_gilk_works_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "root"))

    def work() -> None:
        store_blob("kind", b"key", b"content")
        assert load_blob("kind", b"key") is None
        arrays.store_arrays("key", {})
        assert arrays.load_arrays("key") is None
        assert private.complaints() == [], "that it is root's is no danger"
        assert cache.intended().path is not None or cache.intended().why

    assert as_another(work) == 0
    assert list((tmp_path / "root").iterdir()) == []


def test_a_user_has_a_cache_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def work() -> None:
        store_blob("kind", b"key", b"content")
        assert load_blob("kind", b"key") == b"content"

    assert as_another(work) == 0
    assert (tmp_path / "home" / ".cache" / "gilk").stat().st_uid == OTHER


def said(tmp_path: Path, home: Path) -> subprocess.CompletedProcess[str]:
    program = f'BEGIN {{ trace("{SAID}"); exit(0); }}'
    words = [sys.executable, "-c", COMMAND, str(tmp_path / "root"), "dtrace", "-q", "-n", program]
    environment = {**os.environ, "HOME": str(home), "NO_COLOR": "1"}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)


def forged(genuine: Path, place: Path) -> None:
    """Copy a cache, with another text in each D program that has the genuine one, sealed again."""
    place.mkdir()
    count = 0
    for path in (genuine / "d-programs").iterdir():
        data = path.read_bytes()[SIZE:]
        count += data.count(SAID.encode())
        data = data.replace(SAID.encode(), FORGED.encode())
        (place / "d-programs").mkdir(exist_ok=True)
        (place / "d-programs" / path.name).write_bytes(digest(bytes.fromhex(path.name) + data).digest() + data)
    assert count, "the text is not in it: this tests nothing"


@contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """In the block, a process of the other user exchanges two of his directories as fast as it can."""
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os.setresuid(OTHER, OTHER, OTHER)
            rename = ctypes.CDLL(None).renameat2
            names = [ctypes.c_char_p(bytes(each)) for each in (one, other)]
            while os.getppid() == parent:
                rename(-100, names[0], -100, names[1], _EXCHANGE)
                for _ in range(20_000):
                    pass
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("moving", [False, True])
def test_a_cache_that_another_user_can_exchange_is_not_used(moving: bool, tmp_path: Path) -> None:
    """A directory of root's within one of another user's can be moved by that user, so it is not used."""
    done = said(tmp_path, tmp_path / "root")
    assert (done.stdout.strip(), done.stderr) == (SAID, "")
    genuine, his = tmp_path / "root" / ".cache" / "gilk", tmp_path / "home" / ".cache"
    his.mkdir()
    forged(genuine, his / "mine")
    os.chown(his, OTHER, OTHER)
    (his / "mine").rename(his / "gilk")  # it is root's own as far as anyone can see
    (his / "mine").mkdir()
    os.chown(his / "mine", OTHER, OTHER)
    if not moving:
        done = said(tmp_path, tmp_path / "home")
        assert (done.stdout.strip(), done.returncode) == (SAID, 0)
        assert f"{tmp_path}/home belongs to user {OTHER} (cache-unusable)" in done.stderr
        return
    with exchanging(his / "gilk", his / "mine"):
        assert {said(tmp_path, tmp_path / "home").stdout.strip() for _ in range(ROUNDS)} == {SAID}


def test_negative_control_root_uses_a_forged_cache_in_its_own_home(tmp_path: Path) -> None:
    """Root would believe the forged cache in its own home; so the other tests do show something."""
    said(tmp_path, tmp_path / "root")
    kept = tmp_path / "root" / ".cache" / "gilk"
    forged(kept, kept.parent / "forged")
    kept.rename(kept.parent / "genuine")
    (kept.parent / "forged").rename(kept)
    assert said(tmp_path, tmp_path / "root").stdout.strip() == FORGED
