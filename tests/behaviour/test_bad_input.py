# SPDX-License-Identifier: LGPL-2.1-or-later
"""Requests that cannot be fulfilled: the error's slug, the exit status, and a target that is as it was."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import gilk
from tests.behaviour.harness import ENVIRONMENT, Loop, differences, leftovers, run_gilk, state, wait_for
from tests.programs.build import build, compile_text

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's process")


def fails(slug: str, status: int, *arguments: str | os.PathLike[str], **options: object) -> dict[str, str]:
    done = run_gilk("run", "--json", *arguments, timeout=250, **options)
    assert done.returncode == status, done.stdout + done.stderr
    error: dict[str, str] = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["slug"] == slug, error
    assert "Traceback" not in done.stderr
    return error


def test_attaching_to_a_process_that_does_not_exist_is_refused() -> None:
    fails("no-such-process", 4, "-i", "main:entry=count", "-p", "4194303")


def test_attaching_to_a_kernel_thread_is_refused() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text().strip() != "kthreadd":
        pytest.skip("no kernel threads in this container")
    error = fails("kernel-thread", 4, "-i", "main:entry=count", "-p", "2")
    assert "kthreadd" in error["message"]


def test_attaching_to_a_zombie_is_refused() -> None:
    child = subprocess.Popen(["/bin/true"])
    assert wait_for(lambda: state(child.pid) == "Z")
    error = fails("no-such-process", 4, "-i", "main:entry=count", "-p", str(child.pid))
    assert str(child.pid) in error["message"] and "zombie" in error["message"]
    child.wait()


@ROOT_ONLY
def test_attaching_without_permission_is_refused() -> None:
    with Loop([build("shortblocks")]) as loop:
        site = [p for p in sys.path if p.endswith("site-packages")]
        path = os.pathsep.join([ENVIRONMENT["PYTHONPATH"], *site])
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-m", "gilk", "run", "--json",
                 "-i", "sb_ones:entry=count", "-p", str(loop.pid)]  # fmt: skip
        env = {
            **os.environ,
            "PYTHONPATH": path,
            "HOME": "/nonexistent",
            "GILK_CACHE": f"/tmp/gilk-nobody-{os.getpid()}",
        }
        done = subprocess.run(words, capture_output=True, text=True, env=env, cwd="/")
        if "No module named" in done.stderr or "Permission denied: /" in done.stdout:
            pytest.skip("this Python is not readable by others")
        assert done.returncode == 4, done.stdout + done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["error"]["slug"] == "no-permission"


@pytest.mark.parametrize("tracer", [["strace", "-qq", "-f", "-o", "/dev/null", "-p"], ["gdb", "-q", "-nx", "-p"]])
def test_attaching_to_a_process_that_another_tracer_has_is_refused(tracer: list[str]) -> None:
    with Loop([build("shortblocks")]) as loop:
        other = subprocess.Popen(
            [*tracer, str(loop.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        status = Path(f"/proc/{loop.pid}/status")
        assert wait_for(lambda: f"TracerPid:\t{other.pid}\n" in status.read_text())
        error = fails("already-traced", 4, "-i", "sb_ones:entry=count", "-p", str(loop.pid))
        assert str(other.pid) in error["message"]
        other.terminate() if tracer[0] == "strace" else other.kill()
        other.communicate()
        assert differences(loop.pid) == []


def test_a_32_bit_program_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "small.S"
    source.write_text(".globl _start\n_start: mov $1, %eax\n xor %ebx, %ebx\n int $0x80\n")
    program = tmp_path / "small"
    subprocess.run(["gcc", "-m32", "-nostdlib", "-static", "-o", program, source], check=True)
    fails("elf-class", 3, "-i", "*:entry=count", "--", str(program))


@pytest.mark.parametrize(("at", "value", "slug"), [(18, 183, "elf-machine"), (4, 1, "elf-class")])
def test_a_program_for_another_machine_is_refused(tmp_path: Path, at: int, value: int, slug: str) -> None:
    """Launching it fails in the kernel; scanning it says why."""
    program = tmp_path / "foreign"
    content = bytearray(Path("/bin/true").read_bytes())
    content[at] = value
    program.write_bytes(content)
    program.chmod(0o755)
    done = run_gilk("scan", str(program), "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout.splitlines()[-1])["error"]["slug"] == slug
    assert run_gilk("run", "--json", "-i", "*:entry=count", "--", str(program)).returncode in (3, 4)


def test_launching_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("not a program\n")
    fails("cannot-launch", 4, "-i", "main:entry=count", "--", str(file))
    fails("cannot-launch", 4, "-i", "main:entry=count", "--", "/no/such/program")
    fails("cannot-launch", 4, "-i", "main:entry=count", "--", str(tmp_path))


def test_a_process_may_end_while_gilk_attaches() -> None:
    """Any outcome but a traceback or a hang will do, and the process must end by itself."""
    for delay in range(12):
        child = subprocess.Popen(["/bin/sleep", f"0.{delay:02}5"])
        try:
            with gilk.attach(child.pid) as target, target.session() as session:
                session.insert("*:entry", gilk.count)
        except gilk.GilkError as error:
            assert error.slug in ("no-such-process", "no-such-image", "no-permission", "no-program"), error
        assert child.wait() == 0


def test_a_process_may_be_killed_during_a_session() -> None:
    loop = Loop([build("hot8")])
    with gilk.attach(loop.pid) as target, target.session() as session:
        session.insert("hot:entry", gilk.count)
        assert wait_for(lambda: sum(session.counts().values()) > 0)
        loop.process.kill()
        loop.process.wait()
        with pytest.raises(gilk.GilkError, match="ended|no process"):
            session.insert("hot_asm:entry", gilk.count)
        session.close()
        assert sum(session.counts().values()) > 0


def test_a_process_that_executes_another_program_before_the_first_change_is_refused() -> None:
    """This happens between the look at the process and the first change of it. The new program is left alone."""
    words = ["sh", "-c", "read -r line; exec sleep 1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, text=True) as child:
        try:
            with gilk.attach(child.pid) as target:
                assert target.functions("read", image="libc")
                assert child.stdin
                child.stdin.write("\n")
                child.stdin.flush()
                assert wait_for(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n")
                with pytest.raises(gilk.GilkError, match="has executed another program") as refused:
                    target.session()
                assert refused.value.slug == "no-such-process"
            assert (differences(child.pid), leftovers(child.pid)) == ([], [])
            assert child.poll() is None
        finally:
            child.kill()


def test_a_process_that_uses_its_gs_base_is_refused(tmp_path: Path) -> None:
    text = (
        "#include <asm/prctl.h>\n#include <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
        'static long mine[4];\nint main(void) { syscall(SYS_arch_prctl, ARCH_SET_GS, mine); puts("ready"); fflush(stdout); '
        "char c; return read(0, &c, 1) != 0; }\n"
    )
    program = compile_text(tmp_path, "gs", text, "-O2")
    child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"ready\n"
    fails("gs-in-use", 4, "-i", "main:blocks=count", "-p", str(child.pid))
    assert leftovers(child.pid) == []
    child.communicate()
    assert child.returncode == 0


def test_two_sessions_may_share_one_process() -> None:
    with Loop([build("shortblocks")]) as loop:
        with gilk.attach(loop.pid) as target, target.session() as session:
            (probe,) = session.insert("sb_ones:entry", gilk.count)
            with target.session() as other:
                (another,) = other.insert("sb_ones:entry", gilk.count)
                before = session.counts()[probe.row.point]
                assert wait_for(lambda: session.counts()[probe.row.point] > before)
                assert wait_for(lambda: other.counts()[another.row.point] > 0)
            assert other.restored is None
            before = session.counts()[probe.row.point]
            assert wait_for(lambda: session.counts()[probe.row.point] > before)
        assert session.restored is True
        assert differences(loop.pid) == []


@pytest.mark.parametrize(
    "words", [["-o", "/dev/full"], ["-o", "{tmp}/no/such/directory/x.parquet"], ["-o", "/proc/x.parquet"]]
)
def test_an_output_file_that_cannot_be_written_is_an_error(tmp_path: Path, words: list[str]) -> None:
    with Loop([build("shortblocks")]) as loop:
        words = [word.format(tmp=tmp_path) for word in words]
        done = run_gilk(
            "run", "--json", "-i", "sb_ones:entry=count", "-p", str(loop.pid), "--for", "0.5", *words, timeout=250
        )
        assert json.loads(done.stdout.splitlines()[-1])["error"]["slug"] == "cannot-write"
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert differences(loop.pid) == []
        assert leftovers(loop.pid) == []


def test_a_full_disk_is_an_error_and_keeps_the_target_clean(tmp_path: Path) -> None:
    """The file as far as it was written can be read; the counts are complete; the target is as it was."""
    output = tmp_path / "samples.parquet"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))

    with Loop([build("shortblocks")], gives_way=False) as loop:
        words = [sys.executable, "-m", "gilk", "run", "--json", "-i", "sb_ones:entry=regs", "-i", "sb_ones:entry=count",
                 "-p", str(loop.pid), "--for", "1", "-o", str(output)]  # fmt: skip
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            env={**os.environ, **ENVIRONMENT},
            preexec_fn=little_room,
            timeout=250,
        )
        assert "Traceback" not in done.stderr
        report = json.loads(done.stdout.splitlines()[-1])
        assert report["partial"] is True, report
        assert any("room" in note or "large" in note or "space" in note for note in report["notes"]), report["notes"]
        assert report["restored"] is True
        assert sum(report["counts"].values()) > 0
        assert differences(loop.pid) == []
        kept = [path for path in tmp_path.iterdir() if path.name.startswith("samples")]
        assert kept
        shown = run_gilk("show", str(kept[0]), timeout=250)
        assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize(
    ("insert", "slug"),
    [
        ("hot", "bad-instrument"), ("hot=count", "bad-point"), ("hot:entry=", "bad-instrument"),
        ("hot:entry=cuont", "bad-instrument"), ("hot:middle=count", "bad-point"), ("hot:@x:pre=count", "bad-point"),
        ("hot:@0=count", "bad-point"), ("hot:@999:pre=count", "no-such-block"), ("hot:+0x1=count", "not-an-instruction"),
        ("hot:+0xffff=count", "not-an-instruction"), ("nothing:entry=count", "no-such-function"),
        ("nolib.so:hot:entry=count", "no-such-image"), ("hot:blocks=time", "time-at-entry"),
        ("hot:entry=/no/such.c:function", "no-such-file"), ("=count", "bad-point"), (":::=count", "bad-point"),
    ],
)  # fmt: skip
def test_malformed_points_are_refused(insert: str, slug: str) -> None:
    fails(slug, 2, "-i", insert, "--", str(build("hot8")), "10")


@pytest.mark.parametrize(
    ("insert", "said"),
    [
        ("hot", "for example hot:entry=count"), ("hot8:hot:entry", "for example hot8:hot:entry=count"),
        ("hot=count", "perhaps hot:entry"), ("hot:entri=count", "perhaps hot:entry"),
        ("hot:retrun=count", "perhaps hot:return"), ("syscall:raed=count", "near names: read"),
    ],
)  # fmt: skip
def test_a_point_that_is_nearly_right_is_suggested(insert: str, said: str) -> None:
    done = run_gilk("run", "--json", "-i", insert, "--", "/bin/cat", "/dev/null")
    assert done.returncode == 2
    assert said in json.loads(done.stdout.splitlines()[-1])["error"]["hint"]


def test_a_misspelt_event_is_refused_before_anything_is_analysed() -> None:
    done = run_gilk("trace", "--json", "--start", "call:sb_onse", "--", str(build("shortblocks")), "10")
    assert done.returncode == 2
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert (error["slug"], "sb_ones" in error["hint"]) == ("no-such-function", True)
    assert "analysing" not in done.stderr


def test_a_misspelt_function_is_suggested() -> None:
    error = fails("no-such-function", 2, "-i", "hot_asn:entry=count", "--", str(build("hot8")), "10")
    assert "hot_asm" in error["hint"]


def test_a_function_named_without_an_image_is_suggested_from_its_library() -> None:
    """`malloc` is libc's, which the linker tells, too."""
    error = fails("no-such-function", 2, "-i", "malloc:entry=count", "--", "/bin/ls", "-d", "/")
    listed = subprocess.run(["ldd", "/bin/ls"], capture_output=True, text=True, check=True).stdout
    assert (
        "libc.so.6" in listed and error["hint"] == "it is in libc.so.6: name the library, as in libc.so.6:malloc:entry"
    )
    done = run_gilk("run", "-i", "libc.so.6:malloc:entry=count", "--", "/bin/ls", "-d", "/")
    assert done.returncode == 0, done.stderr
    assert "libc.so.6:malloc:entry" in done.stderr and "0 records" not in done.stderr


def test_a_command_line_without_target_or_with_two_is_refused() -> None:
    fails("no-target", 2, "-i", "main:entry=count")
    fails("two-commands", 2, "-i", "main:entry=count", "-c", "true", "--", "true")
    fails("two-commands", 2, "-i", "main:entry=count", "-c", "true", "-c", "false")
    fails("bad-command", 2, "-i", "main:entry=count", "-c", "'unfinished")
    fails("usage", 2, "--", "true")


def test_a_failed_launch_leaves_no_process_behind() -> None:
    """The program is stopped before its first instruction when the error is found: it must neither run nor stay."""
    program = build("hot8")
    fails("no-such-function", 2, "-i", "nothing:entry=count", "--", str(program), "123456789")
    assert wait_for(lambda: not _started("123456789"))


def _started(word: str) -> list[str]:
    """The programs that have this word as an argument, except gilk itself."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, *words = place.read_bytes().decode(errors="replace").split("\0")
            found += [program] if word in words and not Path(program).name.startswith("python") else []
    return found


@pytest.mark.parametrize("number", ["os.getpid()", "threading.get_native_id()"])
def test_gilk_does_not_attach_to_itself(number: str) -> None:
    """This runs in a process of its own, because a process that attached to itself died."""
    look = (
        f"import gilk, os, threading\ntry: gilk.attach({number})\nexcept gilk.TargetError as error: print(error.slug)"
    )
    text = f"import threading\none = threading.Thread(target=exec, args=({look!r},))\none.start()\none.join()"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("own-process\n", "")


def test_an_unharmed_target_after_each_failure() -> None:
    with Loop([build("shortblocks")]) as loop:
        for insert in ("nothing:entry=count", "sb_ones:entry=/no/such.c:f", "sb_ones:@999:pre=count"):
            assert run_gilk("run", "--json", "-i", insert, "-p", str(loop.pid)).returncode == 2
            assert differences(loop.pid) == []
            assert leftovers(loop.pid) == []


def test_inserting_more_points_than_the_session_has_room_for_is_refused() -> None:
    with Loop([build("hot8")]) as loop, gilk.attach(loop.pid) as target, target.session(points=4) as session:
        with pytest.raises(gilk.UsageError) as caught:
            session.insert("*:blocks", gilk.count)
        if caught.value.slug == "too-many-points":
            assert "points=" in caught.value.hint
        session.insert("hot:entry", gilk.count)


@pytest.mark.parametrize(
    "words", [("run", "-i", "true:*:entry=count"), ("trace",), ("dtrace", "-n", "BEGIN { exit(0) }")]
)
@pytest.mark.parametrize("output", ["no/such/directory/x", "directory", "/proc/x"])
def test_an_output_file_is_checked_before_the_program_begins(
    tmp_path: Path, words: tuple[str, ...], output: str
) -> None:
    (tmp_path / "directory").mkdir()
    begun = tmp_path / "begun"
    script = tmp_path / "true"
    script.write_text(f"#!/bin/sh\ntouch {begun}\n")
    script.chmod(0o755)
    command = ("-c", str(script)) if words[0] == "dtrace" else ("--", str(script))
    done = run_gilk(*words, "-o", output, *command, cwd=tmp_path, timeout=250)
    assert done.returncode != 0
    assert output in done.stderr
    assert "Traceback" not in done.stderr
    assert not begun.exists()


@pytest.mark.parametrize(
    "words", [("run", "-i", "nothing:*:entry=count"), ("trace", "--start", "call:no_such_function")]
)
def test_an_earlier_output_file_stays_until_a_new_one_replaces_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "out").write_text("earlier")
    done = run_gilk(*words, "-o", tmp_path / "out", "--", "true", timeout=250)
    assert done.returncode != 0
    assert (tmp_path / "out").read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
