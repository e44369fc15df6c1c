# SPDX-License-Identifier: LGPL-2.1-or-later
"""USDT probes in one program with the kernel: they fire as often as the programs pass them, with the values that
they pass, and programs see whether somebody listens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gilk.engines.dtrace.enabling import NoSuchProbe
from gilk.targets.kernel.target import KernelTarget
from tests.kernel.driver.driving import Guest
from tests.kernel.session.d_programs import program, ran
from tests.kernel.session.test_d_clients import Second
from tests.kernel.session.test_d_uprobes import FRAMES, TIMES, counted, turning
from tests.programs.build import build, compile_to
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
STEPS = 1000  # steps of marked.c
SEMAPHORE = "users_turned_semaphore"
BESIDE = "fbt::do_msgsnd:entry { } "


@pytest.fixture(scope="module")
def users(exchange: Path) -> Path:
    return compile_to(exchange / "users", [Path(__file__).with_name("users.c")], FRAMES)


@pytest.mark.parametrize("variant", seldom(["default", "nopie"], 1))
def test_usdt_probes_fire_with_the_programs_values(
    kernel: KernelTarget, guest: Guest, variant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The operands are in registers and parts of them, on the stack, at symbols, and constants, wherever the program
    lies."""
    text = """#pragma D depends_on provider marked
        marked$target:::work-step { @n["passages"] = count(); @s["first"] = sum(arg0); @s["second"] = sum(arg1); }
        marked$target:a.out::work__step { @s["third"] = sum(arg2); @s["both"] = sum(arg3 * 10 + arg4); }
        marked$target:::work-* { @m["last"] = max(arg5); }
        marked$target:::float { @s["float"] = sum(arg1); }
        fbt::do_msgsnd:entry { }
        END { printa("%s %@d\\n", @n); printa("%s %@d\\n", @s); printa("%s %@d\\n", @m); }"""
    done = ran(kernel, text, [str(build("marked", variant))])
    steps, total, listened = map(int, re.findall(r"\d+", capfd.readouterr().out.splitlines()[0]))
    assert (steps, listened) == (STEPS, STEPS)
    assert counted(done.lines) == {
        "passages": steps, "first": -total, "second": -total, "third": sum(i & 255 for i in range(steps)),
        "both": 25 * steps, "last": total, "float": 7 * steps,
    }  # fmt: skip
    assert (done.errors, done.status, done.restored) == ("", 0, True) and not guest.complaints()


@pytest.mark.stress
def test_clauses_in_kernel_and_process_share_variables(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """A child, which is not traced, hits nothing."""
    text = """
        users$target:::turned { self->turned = arg0; @s["turned"] = sum(arg0); @s["counted"] = sum(arg1); }
        syscall::getpgid:entry /pid == $target && self->turned/ { @n["after"] = count(); self->turned = 0; }
        END { printa("%s %@d\\n", @n); printa("%s %@d\\n", @s); }"""
    for command in ([str(users), str(TIMES)], [str(users), str(TIMES), "fork"]):
        done = ran(kernel, text, command)
        total = TIMES * (TIMES - 1) // 2
        assert counted(done.lines) == {"after": TIMES - 2, "turned": -total, "counted": total + TIMES}
        assert (done.errors, done.status, done.restored) == ("", 0, True)
    assert not guest.complaints()


def test_semaphores_rise_only_in_the_chosen_processes(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """The semaphores rise in two of three processes of the program, and are afterwards what they were."""
    with turning(guest, users, 3) as (first, second, other):
        seen: list[int] = []

        def work() -> None:
            seen.extend(each.number(SEMAPHORE) for each in (first, second, other))
            for each, count in ((first, 3), (second, 5), (other, 7)):
                each.turn(count)
            first.end()

        text = """
            users$target:::turned { @[pid] = count(); turns++; } fbt::do_msgsnd:entry { }
            tick-100ms /turns == 8/ { exit(0); }
            END { printa("%d %@d\\n", @); }"""
        done = ran(kernel, text, pids=(first.pid, second.pid), work=work)
        assert seen == [1, 1, 0] and not done.errors
        assert sorted(map(str.split, done.lines)) == sorted([[str(first.pid), "3"], [str(second.pid), "5"]])
        assert [second.number(SEMAPHORE), other.number(SEMAPHORE)] == [0, 0]
        second.end()
        assert b"listened 5\n" in second.said and b"listened 3\n" in first.said
        other.end()
        assert b"listened 0\n" in other.said
    assert not guest.complaints()


@pytest.mark.stress
def test_a_client_that_is_killed_leaves_no_semaphore_raised(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    """A client that ends leaves none either; a semaphore is raised once, however many listen."""
    with turning(guest, users, 1) as (process,):
        text = f"users{process.pid}:::turned {{ @ = count(); }} fbt::do_msgsnd:entry {{ }}"
        first = Second(guest, text)
        try:
            assert process.number(SEMAPHORE) == 1
            consumer, _ = program(kernel, text, destructive="")  # nobody watches it, and the machine may be slow
            assert not consumer.start()
            raised = process.number(SEMAPHORE)
            process.turn(3)
        finally:
            first.kill()
        process.turn(4)
        assert raised == 1 and process.number(SEMAPHORE) == 1
        assert list(consumer.tracing.aggregations.snapshot().values()) == [(7,)]
        guest.link.close_driver()
        assert process.number(SEMAPHORE) == 0
        process.turn(3)
        process.end()
    assert not guest.complaints()


def test_usdt_probes_that_do_not_exist_are_refused_by_name(kernel: KernelTarget, guest: Guest, users: Path) -> None:
    command = [str(users), "1"]
    with pytest.raises(NoSuchProbe, match="has no such provider, but"):
        program(kernel, BESIDE + "bash$target:::line { }", command)
    with pytest.raises(NoSuchProbe, match="its providers have other probes"):
        program(kernel, BESIDE + "users$target:::line { }", command)
    consumer, _ = program(kernel, BESIDE + "users$target:::turned { trace(arg2); }", command)
    told = [str(getattr(each, "reason", each)) for each in consumer.start()]
    assert told == ["arg2 is where it cannot be fetched from"]
    guest.link.close_driver()
    assert not guest.complaints()
