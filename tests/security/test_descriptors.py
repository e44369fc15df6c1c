# SPDX-License-Identifier: LGPL-2.1-or-later
"""A target replaces the memory that gilk has it make by something else, just before gilk changes it.

The target's helper shares only the descriptor table with it (fdswap.c). In some tests gilk waits for the helper at the
worst moment; one test leaves the moment to chance, and runs the whole command as users do.
"""

from __future__ import annotations

import contextlib
import gc
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gilk.errors import TargetError
from gilk.targets import shared_memory
from gilk.targets.keeper import Keeper
from gilk.targets.linux import LinuxProcess
from gilk.targets.maps import read_maps
from gilk.targets.memory import ProcessMemory
from gilk.targets.remote import Remote
from tests.behaviour.harness import leftovers, run_gilk
from tests.security.partner import Partner, built, open_place

_CONTENT = b"of another\n"
_SIZE = 1 << 20
_ROUNDS = 4


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with open_place() as place:
        yield place


@pytest.fixture(scope="module")
def fdswap(place: Path) -> Path:
    return built(place, "fdswap")


@pytest.fixture
def victim(place: Path) -> Path:
    """A file that only the user of the tests may read and write."""
    file = place / "victim"
    file.unlink(missing_ok=True)
    file.write_bytes(_CONTENT)
    file.chmod(0o600)
    return file


def set_up(pid: int) -> None:
    """Map gilk's memory as for a session, and undo it."""
    keeper = Keeper(LinuxProcess(pid))
    try:
        for fd in keeper.mapper.set_up(f"test-{os.getpid()}-{pid}", _SIZE, _SIZE):
            os.close(fd)
    finally:
        keeper.close()
        keeper.memory.close()


def waiting_for(partner: Partner, then: Callable[..., Any]) -> Callable[..., Any]:
    def wait_once(*arguments: Any) -> Any:
        nonlocal waited
        if not waited:
            waited = True
            assert partner.line() == "swapped"
        return then(*arguments)

    waited = False
    return wait_once


def has_huge_memory() -> bool:
    with contextlib.suppress(OSError):
        os.close(os.memfd_create("huge", os.MFD_HUGETLB))
        return True
    return False


def no_traces(pid: int) -> bool:
    return leftovers(pid) == [] and not any("gilk" in mapping.path for mapping in read_maps(pid))


def files_of_ours() -> set[str]:
    """The files that this process, which is the keeper here, has open, without the descriptor for the listing."""
    names = {f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    return {f"{name} {os.readlink(name)}" for name in names if os.path.lexists(name)}


@pytest.mark.parametrize("what", ["path", "file", "pipe", "full", "huge", "closed", "sealed", "frozen"])
def test_descriptors_exchanged_for_gilks_memory_are_refused_and_not_written(
    what: str, fdswap: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "file":
        victim.chmod(0o644)
    if what == "huge" and not has_huge_memory():
        pytest.skip("this kernel has no memory of huge pages")
    before = victim.stat()
    with Partner(fdswap, what, victim) as partner:
        monkeypatch.setattr(shared_memory, "_taken", waiting_for(partner, shared_memory._taken))
        gc.collect()  # closes files of other tests
        known = files_of_ours()
        with pytest.raises(TargetError) as caught:
            set_up(partner.pid)
        assert caught.value.slug == "not-our-memory"
        assert files_of_ours() == known
        assert no_traces(partner.pid)
    assert partner.process.returncode == 0
    after = victim.stat()
    assert victim.read_bytes() == _CONTENT
    assert (after.st_size, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_size, before.st_mtime_ns, before.st_ctime_ns,
    )  # fmt: skip


@pytest.mark.parametrize("what", ["sealed", "frozen"])
def test_a_seal_set_by_the_target_is_detected(
    what: str, fdswap: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reads memory which its maker can shrink may be killed by that; nobody can write to frozen
    memory."""
    with Partner(fdswap, what, victim) as partner:
        monkeypatch.setattr(shared_memory, "_check_fresh", lambda *_: None)
        monkeypatch.setattr(shared_memory, "_seal", waiting_for(partner, shared_memory._seal))
        with pytest.raises(TargetError) as caught:
            set_up(partner.pid)
        assert caught.value.slug == "not-our-memory"
        assert no_traces(partner.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root has no more rights than the target")
def test_a_file_that_only_root_may_open_is_not_opened_for_a_target(
    fdswap: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if the file were taken for memory: the keeper opens it with no more rights than the target's
    user has."""
    opened: list[int] = []
    with Partner(fdswap, "path", victim) as partner:
        monkeypatch.setattr(shared_memory, "_mount", lambda _: 1)
        monkeypatch.setattr(shared_memory, "_check_fresh", lambda *found: opened.append(found[-1]))
        monkeypatch.setattr(shared_memory, "_taken", waiting_for(partner, shared_memory._taken))
        with pytest.raises(TargetError) as caught:
            set_up(partner.pid)
        assert caught.value.slug == "not-our-memory"
    assert opened == []
    assert victim.read_bytes() == _CONTENT  # the keeper has its own rights again


def test_other_memory_mapped_in_place_of_gilks_is_detected(
    fdswap: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a session would count nothing, and report that nothing had happened."""
    with Partner(fdswap, "mapped", victim) as partner:
        monkeypatch.setattr(Remote, "code", waiting_for(partner, Remote.code))
        with pytest.raises(TargetError) as caught:
            set_up(partner.pid)
        assert caught.value.slug == "not-our-memory"


def test_the_size_of_a_sessions_memory_cannot_change(fdswap: Path, victim: Path) -> None:
    """The target cannot change the size either, though it may open the memory."""
    with Partner(fdswap, "nothing", victim) as partner:
        keeper = Keeper(LinuxProcess(partner.pid))
        try:
            for fd in keeper.mapper.set_up(f"test-{os.getpid()}", _SIZE, _SIZE):
                for size in (0, _SIZE - 1, _SIZE + 1):
                    with pytest.raises(PermissionError):
                        os.ftruncate(fd, size)
                assert os.fstat(fd).st_size == _SIZE
        finally:
            keeper.close()
            keeper.memory.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="the file is to be the tracer's, and not the target's to write")
def test_a_file_that_a_target_has_mapped_is_not_written_to_through_its_memory(fdswap: Path, victim: Path) -> None:
    """The kernel guarantees this, and gilk relies on it wherever it writes to a target."""
    victim.chmod(0o644)
    with Partner(fdswap, "view", victim) as partner:
        mapping = next(each for each in read_maps(partner.pid) if each.path == str(victim))
        with ProcessMemory(partner.pid) as memory:
            assert memory.read(mapping.start, len(_CONTENT)) == _CONTENT
            with pytest.raises(OSError):
                memory.write(mapping.start, b"overwritten")
    assert victim.read_bytes() == _CONTENT


def test_root_does_not_write_to_files_for_a_target(fdswap: Path, victim: Path) -> None:
    """The command runs as users run it for a few rounds; the helper comes at any moment."""
    for _ in range(_ROUNDS):
        with Partner(fdswap, "path", victim) as partner:
            done = run_gilk("run", "-i", "fdswap:work:entry=count", "-p", partner.pid, "--for", "0.1", timeout=240)
            refused = ("(not-our-memory)", "(refused-by-kernel)")  # it was exchanged, or was missing just then
            assert done.returncode == 0 or any(each in done.stderr for each in refused), done.stderr
        assert victim.read_bytes() == _CONTENT
        assert stat.S_IMODE(victim.stat().st_mode) == 0o600
