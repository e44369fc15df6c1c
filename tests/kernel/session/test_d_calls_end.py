# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes at returns fire when the call is over, also where its function ends in a jump to another one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gilk.targets.call_ends import CallEndFinder
from gilk.targets.kernel.target import KernelTarget
from tests.behaviour.advised import jumps
from tests.behaviour.test_advice_tails import CHAIN, LEFT, MUTUAL
from tests.kernel.session.d_programs import program as compiled_program
from tests.kernel.session.d_programs import ran
from tests.providers.test_calls_end import AWAY, RESULTS, build

pytestmark = pytest.mark.xdist_group("lab")
WORK = "ls -lR /sys/bus /proc/self >/dev/null; uname -a >/dev/null; cat /proc/mounts >/dev/null; mkdir /d; rmdir /d"


def goes_on(kernel: KernelTarget, name: str) -> bool:
    """Whether calls of the function go on in others, all of which are known."""
    analysis, loaded = kernel.analysis(), kernel.loaded()[0]
    span = next(span for span in kernel.kernel.image.spans if span.name == name)
    ends = CallEndFinder(kernel).of(loaded, analysis.function(span))
    return bool(ends.jumps) and not ends.lost


def test_results_of_functions_that_jump_are_those_of_their_system_calls(kernel: KernelTarget) -> None:
    names = ("read", "newuname", "newfstat", "mkdir", "getdents64", "openat", "close", "rmdir", "write", "munmap")
    jumping = [name for name in names if goes_on(kernel, f"__x64_sys_{name}")]
    assert "read" in jumping and len(jumping) > 1, jumping
    text = f"""
        {", ".join(f"fbt::__x64_sys_{name}:return" for name in names)} /progenyof($target)/ {{
            @inner[substr(probefunc, 10), (int)arg1] = count();
        }}
        syscall:::return /progenyof($target)/ {{ @outer[probefunc, (int)arg1] = count(); }}
        END {{ printa("inner %s %d %@d\\n", @inner); printa("outer %s %d %@d\\n", @outer); }}"""
    done = ran(kernel, text, ["sh", "-c", WORK])
    found = {"inner": Counter[tuple[str, str]](), "outer": Counter[tuple[str, str]]()}
    for line in done.lines:
        side, name, result, count = line.split()
        if name.removeprefix("new") in {each.removeprefix("new") for each in names}:
            found[side][name.removeprefix("new"), result] += int(count)
    assert found["inner"] == found["outer"] and found["inner"].total() > 100
    assert done.restored and not done.errors


def test_calls_of_functions_that_jump_to_one_another_are_nested(kernel: KernelTarget) -> None:
    """Each return is that of the call that began last, in every thread."""
    names = (
        *("path_put", "mntput", "mntput_no_expire", "dput", "getname", "putname", "kfree", "kmem_cache_free", "fput"),
        *("vfs_getattr", "vfs_getattr_nosec", "ksys_read", "__x64_sys_read", "mutex_lock_io", "iput", "terminate_walk"),
    )
    there = {span.name for span in kernel.kernel.image.spans}
    names = tuple(name for name in names if name in there)
    jumping = [name for name in names if goes_on(kernel, name)]
    assert {"path_put", "mntput", "__x64_sys_read"} <= set(jumping), jumping
    probes = ", ".join(f"fbt::{name}:entry, fbt::{name}:return" for name in names)
    text = f'{probes} /progenyof($target)/ {{ printf("%d %s %s\\n", tid, probefunc, probename); }}'
    done = ran(
        kernel, text, ["sh", "-c", "ls -l /etc /proc/self >/dev/null; cat /proc/mounts >/dev/null"], bufsize="64m"
    )
    open_calls: dict[str, list[str]] = {}
    over: Counter[str] = Counter()
    for line in done.lines:
        tid, function, edge = line.split()
        calls = open_calls.setdefault(tid, [])
        if edge == "entry":
            calls.append(function)
        elif function in calls:  # a call may have begun before the program did
            assert calls.pop() == function, line
            over[function] += 1
    assert done.restored and not done.errors
    assert all(over[name] for name in ("path_put", "mntput", "__x64_sys_read", "vfs_getattr"))
    assert not any(calls for calls in open_calls.values() if len(calls) > 1), open_calls


def test_the_offset_is_that_of_the_jump_and_the_stack_that_of_the_function(kernel: KernelTarget) -> None:
    span = next(span for span in kernel.kernel.image.spans if span.name == "__x64_sys_read")
    ends = CallEndFinder(kernel).of(kernel.loaded()[0], kernel.analysis().function(span))
    offsets = {f"{place.point.address - span.start:x}" for place in ends.jumps}
    text = """
        fbt::__x64_sys_read:return /progenyof($target)/ { @[arg0] = count(); @stacks[stack(1)] = count(); }
        END { printa("%x\\n", @); printa(@stacks); }"""
    done = ran(kernel, text, ["sh", "-c", "cat /proc/mounts >/dev/null"])
    shown = [line.strip() for line in done.lines if "+0x" in line]
    assert {line.strip() for line in done.lines if "+" not in line} - {""} >= offsets
    assert {line.rpartition("+0x")[2] for line in shown} <= offsets and all("__x64_sys_read+" in line for line in shown)
    assert shown


def results(kernel: KernelTarget, program: Path, *functions: str) -> dict[str, list[int]]:
    """The results of the calls of the program's functions, in increasing order."""
    probes = ", ".join(f"pid$target:a.out:{name}:return" for name in functions)
    text = f"""{probes} {{ @[probefunc, (long)arg1] = count(); }}
        syscall::exit_group:entry /pid == $target/ {{ @["end", 0] = count(); }}
        END {{ printa("%s %d %@d\\n", @); }}"""
    done = ran(kernel, text, [str(program)])
    assert not done.errors
    found: dict[str, list[int]] = {name: [] for name in functions}
    for name, result, count in map(str.split, done.lines):
        found.setdefault(name, []).extend([int(result)] * int(count))
    assert found.pop("end") == [0]
    return {name: sorted(of) for name, of in found.items()}


def compiled(exchange: Path, name: str, source: str) -> Path:
    place = exchange / name
    place.mkdir()
    return build(place, source)


def test_uprobes_follow_calls_through_jumps(kernel: KernelTarget, exchange: Path) -> None:
    program = compiled(exchange, "chain", CHAIN)
    assert jumps(program, "first", "middle") and jumps(program, "both", "one")
    assert results(kernel, program, "first", *RESULTS) == {"first": [15], **RESULTS}
    assert results(kernel, program, "both") == {"both": RESULTS["both"]}


def test_uprobes_do_not_take_calls_that_were_left_for_later_ones(kernel: KernelTarget, exchange: Path) -> None:
    program = compiled(exchange, "left", LEFT)
    assert results(kernel, program, "first") == {"first": [n * 2 + 1 for n in range(600) if n % 3 == 0]}


def test_uprobes_at_functions_that_jump_to_each_other_fire_once(kernel: KernelTarget, exchange: Path) -> None:
    program = compiled(exchange, "mutual", MUTUAL.replace("100000", "100"))
    many = sum(n if n % 2 == 0 else 1000 * n for n in range(101))
    expected = sorted([-(3 + 2000 + 1), 4 + 3000 + 2 + 1000, many])
    assert results(kernel, program, "even", "odd") == {"even": expected, "odd": expected}


def test_details_of_uprobes_tell_that_they_fire_at_a_jump_that_may_lead_anywhere(
    kernel: KernelTarget, exchange: Path
) -> None:  # fmt: skip
    program = compiled(exchange, "away", AWAY)
    text = "pid$target:a.out:away:return, pid$target:a.out:here:return { @ = count(); }"
    consumer, target = compiled_program(kernel, text, [str(program)])
    try:
        found = {
            probe.function: more.early for probe, more in consumer.probe_stabilities(consumer.enabled.probes.values())
        }
    finally:
        assert consumer.machine is not None
        consumer.machine.close()
        kernel.link.spawn(["kill", "-KILL", str(target)], lambda _: None, lambda _: None).wait(60.0)
    (said,) = found.pop("away")
    assert said.startswith("away ends in a jump to wherever a pointer leads, at +0x") and found["here"] == ()
