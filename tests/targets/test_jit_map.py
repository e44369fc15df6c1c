# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of generated code from /tmp/perf-PID.map, into which the target's user may write anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gilk.targets import jit_map
from gilk.targets.jit_map import GeneratedCode, JitMap


@pytest.fixture
def idle() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def file(idle: subprocess.Popen[bytes]) -> Iterator[Path]:
    path = Path(f"/tmp/perf-{idle.pid}.map")
    yield path
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)


def named(found: GeneratedCode | None) -> str:
    return found.name if found is not None else ""


def test_an_address_has_the_name_of_the_line_that_it_lies_in(idle: subprocess.Popen[bytes], file: Path) -> None:
    names = JitMap(idle.pid)
    assert names.at(0x1000) is None and names.remark == ""
    file.write_text("1000 10 JS:*update app.js:1:2\n1010 20 other\n0x2000 0x8 with 0x\n")
    assert [named(names.at(each)) for each in (0xFFF, 0x1000, 0x100F, 0x1010, 0x102F, 0x1030, 0x2007)] == [
        "", "JS:*update app.js:1:2", "JS:*update app.js:1:2", "other", "other", "", "with 0x",
    ]  # fmt: skip


def test_later_lines_replace_earlier_ones(idle: subprocess.Popen[bytes], file: Path) -> None:
    names = JitMap(idle.pid, lambda: 0.0)  # nothing takes any time
    file.write_text("1000 100 first\n")
    assert named(names.at(0x1080)) == "first"
    with file.open("a") as more:
        more.write("1040 80 second\n1000 8 thi")
    assert [named(names.at(each)) for each in (0x1000, 0x1080, 0x10C0)] == ["first", "second", "first"]
    with file.open("a") as more:
        more.write("rd\n")
    assert [named(names.at(each)) for each in (0x1000, 0x1008)] == ["third", "first"]
    file.write_text("5000 8 anew\n")
    assert [named(names.at(each)) for each in (0x1000, 0x5000)] == ["", "anew"]


def test_names_are_known_when_the_process_has_ended(idle: subprocess.Popen[bytes], file: Path) -> None:
    names = JitMap(idle.pid)
    file.write_text("1000 10 here\n")
    idle.kill()
    idle.wait()
    assert named(names.at(0x1004)) == "here"


def test_a_settled_map_keeps_its_names_and_no_open_file(idle: subprocess.Popen[bytes], file: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    names = JitMap(idle.pid)
    file.write_text("1000 10 here\n")
    names.settle()
    assert len(os.listdir("/proc/self/fd")) == before
    file.write_text("1000 10 elsewhere, and more\n")
    assert named(names.at(0x1004)) == "here"


def test_links_pipes_and_devices_are_not_read(idle: subprocess.Popen[bytes], file: Path, tmp_path: Path) -> None:
    """Reading does not block either: the pipe has no writer."""
    (tmp_path / "secret").write_text("1000 10 secret\n")
    file.symlink_to(tmp_path / "secret")
    names = JitMap(idle.pid)
    assert names.at(0x1000) is None
    assert names.remark == f"/tmp/{file.name} is not read: it is no regular file"
    file.unlink()
    os.mkfifo(file)
    assert JitMap(idle.pid).at(0x1000) is None
    file.unlink()
    file.write_text("1000 10 mine\n")
    assert named(names.at(0x1000)) == "mine" and names.remark == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_not_read(idle: subprocess.Popen[bytes], file: Path) -> None:
    file.write_text("1000 10 planted\n")
    os.chown(file, 65534, 65534)
    names = JitMap(idle.pid)
    assert names.at(0x1000) is None
    assert "belongs to another user (uid 65534)" in names.remark


def test_reading_is_limited_in_size(
    idle: subprocess.Popen[bytes], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(jit_map, "LARGEST", 1 << 20)
    file.write_bytes(b"1000 10 first\n")
    os.truncate(file, 1 << 40)
    names = JitMap(idle.pid)
    assert named(names.at(0x1000)) == "first"
    assert names.remark == f"/tmp/{file.name} is too large: names at its end are not known"


def test_a_rewritten_file_is_read_again_after_a_pause(idle: subprocess.Popen[bytes], file: Path) -> None:
    """A target that puts another large file there all the time would have nothing else done."""
    clock = Clock()
    names = JitMap(idle.pid, clock)
    file.write_text("1000 10 first\n")
    assert named(names.at(0x1000)) == "first"  # which took a second by that clock: one to look, one when it is read
    for number in range(5):
        anew(file, f"1000 10 no{number}\n")
        assert named(names.at(0x1000)) == "first"
        assert names.remark == f"/tmp/{file.name} is written anew too often: some names are not known"
    clock.time += 20
    assert named(names.at(0x1000)) == "no4" and names.remark == ""
    with file.open("a") as more:
        more.write("2000 10 more\n")
    assert named(names.at(0x2000)) == "more"


class Clock:
    """Goes on by a second each time it is looked at."""

    time = 0.0

    def __call__(self) -> float:
        self.time += 1
        return self.time


def anew(file: Path, text: str) -> None:
    """Another file of that name."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.rename(file)


def test_a_file_of_empty_lines_takes_little_memory(idle: subprocess.Popen[bytes], file: Path) -> None:
    """A list of all its lines takes eight times its size."""
    file.write_bytes(b"\n" * (4 << 20) + b"1000 10 last\n")
    names = JitMap(idle.pid)
    tracemalloc.start()
    try:
        assert named(names.at(0x1000)) == "last"
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_malformed_lines_are_left_out(idle: subprocess.Popen[bytes], file: Path) -> None:
    file.write_bytes(
        b"\n\0\xff\nzz 10 no\n1000 -5 no\n1000 10\n11112222333344445 1 no\nffffffffffffffff ffffffff far\n"
        b"2000 10 \x1b[31mred\x07 \xc2\x9b\xff\n3000 10 " + b"n" * 100_000 + b"\n4000 10 last\n"
    )
    names = JitMap(idle.pid)
    assert names.at(0x1000) is None
    assert named(names.at(0x2000)) == "?[31mred? ?\ufffd"
    assert named(names.at(0x3000)) == "n" * 512
    assert named(names.at(0x4000)) == "last"
    assert named(names.at((1 << 64) - 1)) == "far"


def test_the_map_of_a_contained_process_is_found_by_its_inner_pid(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    script = "mount -t tmpfs none /tmp && echo '1000 10 inside' > /tmp/perf-$$.map && echo ready && exec sleep 600"
    command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None and outer.stderr is not None
            if outer.stdout.readline() != "ready\n":
                pytest.skip(f"no namespaces here: {outer.stderr.read()}")
            inner = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
            names = JitMap(inner)
            assert (names.name, named(names.at(0x1008))) == ("perf-1.map", "inside")
        finally:
            outer.kill()
