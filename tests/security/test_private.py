# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that only their user and root can change are told from those that others can: every directory on the way is
checked, and every file."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk import private
from gilk.private import Unsound
from gilk.toolchain import compilers

OTHER = 65534
_SET_DUMPABLE = 4  # PR_SET_DUMPABLE
_NEWUSER = 0x10000000  # CLONE_NEWUSER
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def nothing_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "_passed", {})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory four levels deep; all of them are safe."""
    found = tmp_path / "a" / "b" / "c"
    found.mkdir(parents=True)
    return found


def given_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def open_to_the_group(path: Path) -> None:
    path.chmod(0o775)


def open_to_all(path: Path) -> None:
    path.chmod(0o757)


CHANGES = [given_away, open_to_the_group, open_to_all]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["a", "a/b", "a/b/c"])
def test_each_directory_of_the_path_is_checked(
    place: Path, tmp_path: Path, which: str, change: Callable[[Path], None]
) -> None:
    with private.directory(place) as found:
        assert found.path == place
    change(tmp_path / which)
    with pytest.raises(Unsound) as caught:
        private.directory(place)
    assert caught.value.filename == str(tmp_path / which)


def test_a_sticky_directory_may_be_passed_through_and_shared(place: Path) -> None:
    place.parent.chmod(0o1777)
    private.directory(place).__exit__()
    with pytest.raises(Unsound, match="written by others"):
        private.directory(place.parent)
    private.directory(place.parent, shared=True).__exit__()
    given_away(place.parent)  # its owner may still move what is in it
    with pytest.raises(Unsound, match="belongs to user"):
        private.directory(place)


@pytest.mark.parametrize("leads", ["{}/a/b", "../a/b", "./b/../b/.", "/proc/self/root{}/a/b"])
def test_a_link_is_followed_and_its_target_is_checked(place: Path, tmp_path: Path, leads: str) -> None:
    link = tmp_path / "a" / "link"
    link.symlink_to(leads.format(tmp_path))
    with private.directory(link / "c") as found:
        assert found.path == place
    open_to_the_group(tmp_path / "a" / "b")
    with pytest.raises(Unsound):
        private.directory(link / "c")


def test_a_link_of_another_user_is_not_followed(place: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    link = tmp_path / "link"
    link.symlink_to(place)
    private.directory(link).__exit__()
    given_away(link)
    with pytest.raises(Unsound, match=f"is a link of user {OTHER}"):
        private.directory(link)


def test_endless_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(Unsound):
        private.directory(tmp_path / "one")


def test_missing_directories_are_made_for_the_user_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private.directory(tmp_path / "x" / "y")
    private.directory(tmp_path / "x" / "y", make=True).__exit__()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("x", "x/y")] == [0o700, 0o700]


def linked_elsewhere(path: Path) -> None:
    os.link(path, path.parent.parent / "another name")


def a_link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [*CHANGES, linked_elsewhere, a_link, a_pipe])
def test_a_file_is_read_only_if_nobody_else_can_change_it(place: Path, change: Callable[[Path], None]) -> None:
    with private.directory(place) as found:
        with found.writing("file") as file:
            file.write(b"content")
        with found.reading("file") as file:
            assert file.read() == b"content"
        change(place / "file")
        with pytest.raises(OSError), found.reading("file"):
            pytest.fail("it was read")


def test_a_file_is_never_written_through_a_link(place: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"safe")
    (place / "file").symlink_to(victim)
    with private.directory(place) as found, found.writing("file") as file:
        file.write(b"content")
    assert (victim.read_bytes(), (place / "file").read_bytes()) == (b"safe", b"content")
    assert not (place / "file").is_symlink()


def test_an_open_directory_stays_the_same_when_renamed(place: Path) -> None:
    """Another directory of the same name does not change what is read and written below the open one."""
    with private.directory(place) as found:
        place.rename(place.parent / "moved")
        place.mkdir()
        (place / "file").write_bytes(b"another")
        with found.writing("file") as file:
            file.write(b"ours")
        with found.reading("file") as file:
            assert file.read() == b"ours"
    assert (place / "file").read_bytes() == b"another"


def test_temporary_files_are_not_in_a_directory_of_another_user(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There another user could exchange compiled files before they are linked; compilers have temporary files too."""
    monkeypatch.setenv("TMPDIR", str(place))
    assert private.temporary() == place
    with compilers.directory() as work:
        assert work.parent == place
    given_away(place.parent)
    assert private.temporary() == Path("/tmp")
    assert compilers.environment()["TMPDIR"] == "/tmp"
    with compilers.directory() as work:
        assert work.parent == Path("/tmp")
    assert private.complaints() == [f"{place.parent} belongs to user {OTHER}"]


@pytest.mark.parametrize("named", [False, True])
def test_in_a_user_namespace_without_root_system_directories_count_as_roots(named: bool, tmp_path: Path) -> None:
    """In another user's namespace, / and /tmp seem to belong to nobody, and so do the files of a third user."""
    for above in (tmp_path, *tmp_path.parents):  # pytest's are for root alone
        if above.name.startswith(("pytest-", "test_")):
            above.chmod(0o755)
    given_away(tmp_path)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresgid(4711, 4711, 4711)
            os.setresuid(4711, 4711, 4711)
            ctypes.CDLL(None).prctl(_SET_DUMPABLE, 1)  # otherwise the process's own files in /proc are root's
            if ctypes.CDLL(None).unshare(_NEWUSER):
                os._exit(2)
            if named:
                Path("/proc/self/uid_map").write_text("0 4711 1")
            assert os.stat("/").st_uid == OTHER
            assert private.temporary() == Path("/tmp")
            with pytest.raises(Unsound):
                private.directory(tmp_path)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 2:
        pytest.skip("there are no user namespaces for users here")
    assert status == 0
