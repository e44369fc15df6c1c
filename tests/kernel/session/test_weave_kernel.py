# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects in a live stock kernel: matches are the calls that a program makes, values are those that it passes, and
nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.weaving import Weaving
from gilk.errors import UsageError
from gilk.lang.aspect.woven import AspectCounts, WovenReport
from gilk.render.woven_tables import value_of
from gilk.targets.kernel.driver_build import headers_of
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain.kernel_instrument import compile_module
from tests.kernel.driver.driving import Guest
from tests.kernel.session.test_session import TIMES, run, text_of
from tests.seldom import seldom

pytestmark = pytest.mark.xdist_group("lab")
SOURCE = Path(__file__).parents[3] / "src"
HELD = Path(__file__).parent / "guest" / "held_module.py"
PATIENCE = 120.0  # seconds
FUNCTIONS = ["find_task_by_vpid", "load_msg", "store_msg", "do_msgsnd"]


class Woven:
    """The result of a weaving during which a program ran."""

    def __init__(self, weaving: Weaving, reports: list[WovenReport]) -> None:
        self.reports = reports
        self.counts: dict[str, AspectCounts] = {one.name: one for one in weaving.counts()}
        self.tables = {one.table.name: one for one in weaving.tables()}
        (self.summary,) = weaving.summaries()


@contextmanager
def weaving(kernel: KernelTarget, place: Path, text: str) -> Iterator[Weaving]:
    path = place / "k.aspect"
    path.write_text(text)
    one = Weaving(read_aspects(path), {}, [], kernel=kernel)
    try:
        one.weave()
        yield one
    finally:
        one.unweave()


def woven(kernel: KernelTarget, guest: Guest, calls: Path, place: Path, text: str) -> Woven:
    with weaving(kernel, place, text) as one:
        before = list(one.reports())
        run(guest, calls)
    return Woven(one, [*before, *one.reports(final=True)])


CALLS = """
%K{ #include <linux/msg.h>
#define ASKED(nr) ((nr) >= 0x1000 && (nr) < 0x1000 + 300) %}
table numbers key(int) sum;
table texts key(char[8], unsigned) count;
table sizes key(int) quantize;
table spread key(int) stddev;
aspect asked: K: call(struct task_struct *find_task_by_vpid(int nr)) && if (ASKED(nr))
    then { add(numbers, nr, pid()); add(sizes, 0, nr); add(spread, 0, nr - 0x1000); };
aspect none: K: call(struct task_struct *find_task_by_vpid(int nr)) && return(t) && if (ASKED(nr) && !t)
    then after {
        if (nr == 0x1005) report("%s %d: %s is %d of %lu%%", "none", nr, current->comm, tid() - pid(), 100ul);
    };
aspect stored: K: call(int store_msg(void *dest, struct msg_msg *msg, size_t len)) && return(r)
    && bind(char start[8], (char *)msg + sizeof(struct msg_msg)) && bind(long type, msg->m_type)
    && if (type == 1 && msg->m_ts == 100) && if (r == 0) && if (strcmp(start, "a messa") == 0)
    then after { add(texts, start, len, 1); };
"""


def test_matches_are_the_calls_that_a_program_makes(
    kernel: KernelTarget, guest: Guest, calls: Path, tmp_path: Path
) -> None:
    """Each number is asked for once; each message, of 100 bytes, is fetched once; all values are the program's own."""
    before = text_of(kernel, FUNCTIONS)
    found = woven(kernel, guest, calls, tmp_path, CALLS)
    assert {name: one.matches for name, one in found.counts.items()} == dict.fromkeys(
        ("asked", "none", "stored"), (TIMES,)
    )
    rows = found.tables["numbers"].rows
    assert {int.from_bytes(row.key[:4], "little") for row in rows} == set(range(0x1000, 0x1000 + TIMES))
    (pid,) = {row.sum for row in rows}
    (sizes,), (spread,) = found.tables["sizes"].rows, found.tables["spread"].rows
    buckets = value_of(found.tables["sizes"].table, sizes)
    assert isinstance(buckets, list)
    assert {one["value"]: one["count"] for one in buckets if one["count"]} == {0x1000: TIMES}
    numbers = range(TIMES)
    assert (spread.sum, spread.squares) == (sum(numbers), sum(n * n for n in numbers))
    (text,) = found.tables["texts"].rows
    assert text.key[:16] == b"a messa\0" + (100).to_bytes(4, "little") + bytes(4)
    assert text.count == TIMES
    (report,) = found.reports
    assert (report.pid, report.tid, report.aspect, report.text) == (pid, pid, "none", "none 4101: calls is 0 of 100%")
    assert found.summary.restored is True
    assert (found.summary.inside, found.summary.drops, found.summary.notes) == (0, 0, ())
    assert text_of(kernel, FUNCTIONS) == before
    assert b"gilk_" not in guest.link.read_file("/proc/modules")
    assert not guest.complaints()


SEQUENCES = """
%K{ #include <linux/msg.h> %}
aspect sent: unique(m) seq(
    K: call(struct msg_msg *load_msg(void *src, size_t len)) && return(m) && if (m && len == 100);
    K: call(int store_msg(void *dest, struct msg_msg *msg, size_t len)) && if (msg == m) *;
    K: call(void free_msg(struct msg_msg *msg)) && if (msg == m) && if (msg->m_ts == 100));
aspect own: perthread var(int n = 40) seq(
    K: call(struct task_struct *find_task_by_vpid(int nr)) && if (nr == 0x1000);
    K: call(struct task_struct *find_task_by_vpid(int other)) && if (other > nr) then { n += 2; } *;
    K: call(struct msg_msg *load_msg(void *src, size_t len)) then { if (n) report("%d after it", n); });
"""


def test_sequences_match_in_the_kernel(kernel: KernelTarget, guest: Guest, calls: Path, tmp_path: Path) -> None:
    """A message is made, fetched and freed; the number of system calls after the first is the program's."""
    found = woven(kernel, guest, calls, tmp_path, SEQUENCES)
    sent, own = found.counts["sent"], found.counts["own"]
    assert sent.matches == (TIMES, TIMES, TIMES)
    assert (sent.begun, sent.ended, sent.open, sent.replaced, sent.lost) == (TIMES, TIMES, 0, 0, 0)
    assert (own.matches, own.begun, own.ended) == ((1, TIMES - 1, 1), 1, 1)
    assert [one.text for one in found.reports] == [f"{40 + 2 * (TIMES - 1)} after it"]


BAD = """
%K{ #include <linux/fs.h> %}
aspect nowhere: K: call(struct task_struct *find_task_by_vpid(int nr))
    && if (nr >= 0x1000 && ((struct file *)(long)nr)->f_inode->i_ino != 1) then { report("never"); };
aspect divided: K: call(struct task_struct *find_task_by_vpid(int nr)) && if (nr >= 0x1000 && 7 / (nr - nr) == 0);
aspect least: K: call(struct task_struct *find_task_by_vpid(int nr))
    && if (nr >= 0x1000 && (nr | (int)0x80000000) / (nr - nr - 1) == (nr | (int)0x80000000) % (nr - nr - 1));
aspect text: K: call(struct task_struct *find_task_by_vpid(int nr)) && if (nr == 0x1000)
    then { report("%s, %s", (char *)0xffff123412341234, (char *)8); };
"""


def test_bad_pointers_and_divisors_do_no_harm(kernel: KernelTarget, guest: Guest, calls: Path, tmp_path: Path) -> None:
    """The kernel of these tests panics at the first oops."""
    found = woven(kernel, guest, calls, tmp_path, BAD)
    assert [found.counts[name].matches for name in ("nowhere", "divided", "least", "text")] == [(0,), (0,), (0,), (1,)]
    assert found.summary.notes and found.summary.notes[0].startswith(f"{2 * TIMES} times memory")
    assert [one.text for one in found.reports] == [", "]
    assert not guest.complaints()


SWITCHED = """
aspect a: K: call(struct task_struct *find_task_by_vpid(int nr));
aspect b: K: call(struct task_struct *find_task_by_vpid(int nr));
"""


def test_aspects_in_the_kernel_are_switched_off_and_on(
    kernel: KernelTarget, guest: Guest, calls: Path, tmp_path: Path
) -> None:
    with weaving(kernel, tmp_path, SWITCHED) as one:
        one.turn("a", False)
        assert one.states() == {"a": False, "b": True}
        run(guest, calls)
        first, second = one.counts()
    assert first.matches == (0,)
    assert second.matches[0] >= TIMES


REFUSED = {
    "K: call(int __x64_sys_gone(int a));": "no-such-function",
    "K: call(void asm_exc_page_fault(void));": "cannot-weave",
    "call(void f(void)); K: call(void *find_vpid(int nr));": "remote-kernel-only",  # the kernel of another machine
}


@pytest.mark.parametrize("text", seldom(REFUSED, 2))
def test_aspects_that_cannot_be_woven_are_refused_and_change_nothing(
    kernel: KernelTarget, guest: Guest, tmp_path: Path, text: str
) -> None:
    before = text_of(kernel, [*FUNCTIONS, "find_vpid"])
    more = "K: call(struct msg_msg *load_msg(void *src, size_t len));\n%K{ #include <linux/msg.h> %}\n"
    with pytest.raises(UsageError) as error, weaving(kernel, tmp_path, more + text):
        pass
    assert error.value.slug == REFUSED[text]
    assert text_of(kernel, [*FUNCTIONS, "find_vpid"]) == before
    assert b"gilk_" not in guest.link.read_file("/proc/modules")


MODULE = """
#include <linux/module.h>
static unsigned set; static unsigned long pair, string, registers;
module_param(set, uint, 0); module_param(pair, ulong, 0);
module_param(string, ulong, 0); module_param(registers, ulong, 0);
void gilk_called(void); void gilk_called(void) { }
MODULE_LICENSE("GPL");
"""


def test_the_aspect_module_is_unloaded_when_its_client_is_killed(
    kernel: KernelTarget, guest: Guest, exchange: Path
) -> None:
    """The module cannot be removed before that by anybody: patches may lead there."""
    name = "gilk_held"
    made = compile_module(name, {"one": MODULE}, f"obj-m := {name}.o\n{name}-y := one.o\n", headers_of(kernel.release))
    (exchange / f"{name}.ko").write_bytes(made.content)
    said = bytearray()
    words = [sys.executable, str(HELD), name, str(exchange / f"{name}.ko"), str(made.functions["gilk_called"])]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOME": "/tmp"}
    client = guest.link.spawn(words, said.extend, said.extend, environment=environment)
    guest.link.channel.until(lambda: b"\n" in said or client.status is not None, PATIENCE)
    assert said == b"held\n"
    status, _, why = guest.vm.run(["rmmod", name])
    assert status and b"in use" in why
    client.signal(signal.SIGKILL)
    assert client.wait(PATIENCE) == 128 + signal.SIGKILL
    gone = f"n=0; while [ -d /sys/module/{name} ] && [ $n -lt 100 ]; do sleep 0.5; n=$((n+1)); done; ls /sys/module"
    status, listed, _ = guest.vm.run(["sh", "-c", gone], timeout=600.0)
    assert status == 0
    assert name not in listed.decode().split()
