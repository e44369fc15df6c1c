# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects in a process and in its kernel at once, with a weaver in the virtual machine; and processes that write
anything into the memory that both share."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gilk.api.aspects import read_aspects
from gilk.engines.aspect.kernel_part import confined_file
from gilk.engines.aspect.possible import check_possible
from gilk.engines.aspect.state import WovenLayout, WovenState
from gilk.engines.aspect.woven_kernel import WovenKernel
from gilk.errors import MachineGone, UsageError
from gilk.lab import VM, Machine, boot
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.deeds import Did
from gilk.lang.aspect.events import AspectEvent, EventKind
from gilk.lang.aspect.lower import automata
from gilk.lang.aspect.model import AspectModel
from gilk.targets.kernel.channel import RemoteProcess
from gilk.targets.kernel.driver import Driver
from gilk.targets.kernel.target import KernelTarget
from gilk.toolchain import kept_module, kernel_instrument
from gilk.toolchain.compilers import NATIVE
from tests.kernel.conftest import STRICT
from tests.kernel.driver.driving import Guest
from tests.programs.build import compile_to

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(1200)]
HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"
RACE = HERE.parents[2] / "examples" / "aspects" / "race.aspect"
DOCUMENTED = HERE.parents[2] / "docs" / "cli" / "weave.md"
PATIENCE = 600.0  # seconds for a weaver in the machine, which may be emulated
ROUNDS = 10
GETSID = "call(long __x64_sys_getsid(const struct pt_regs *regs))"

#: The example of docs/cli/weave.md: what a server has read for each of its clients.
SERVED = re.search(r"```aspect\n(/\* How many bytes of files a server .*?)```", DOCUMENTED.read_text(), re.DOTALL)[1]  # type: ignore[index]
#: The same, with an element at a place in the kernel that the driver refuses, and with advice that does not compile.
REFUSED = (
    SERVED + "K: call(void asm_exc_page_fault(void));",
    SERVED + "A: call(void served(long other)) then { nowhere(); there = 1; };",
)


class Away:
    """A weaver in the machine."""

    def __init__(self, guest: Guest, words: list[str]) -> None:
        self._guest, self.said = guest, bytearray()
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        command = [sys.executable, str(HERE / "guest" / "weaver.py"), *words]
        self.process: RemoteProcess = guest.link.spawn(
            command, self.said.extend, self.said.extend, environment=environment
        )

    def told(self) -> list[dict[str, Any]]:
        """The JSON objects that it has printed."""
        lines = bytes(self.said).decode().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def until(self, word: str, seconds: float = PATIENCE) -> None:
        def there() -> bool:
            return any(word in one for one in self.told()) or self.process.status is not None

        self._guest.link.channel.until(there, seconds)
        assert any(word in one for one in self.told()), self.said.decode()

    def end(self) -> list[dict[str, Any]]:
        assert self.process.wait(PATIENCE) == 0, self.said.decode()
        return self.told()


@pytest.fixture(scope="module")
def image(kernel: KernelTarget, exchange: Path) -> Path:
    """The kernel of the machine, read from outside it, in a file."""
    path = exchange / "kernel.image"
    path.write_bytes(pickle.dumps(kernel.kernel, pickle.HIGHEST_PROTOCOL))
    return path


@pytest.fixture(scope="module")
def server(exchange: Path) -> Path:
    return compile_to(exchange / "served", [HERE / "served.c"], ("-O1",))


@pytest.fixture(scope="module")
def scribbler(exchange: Path) -> Path:
    return compile_to(exchange / "scribbles", [HERE / "scribbles.c"], ("-O2", "-static", "-pthread"))


@pytest.fixture(scope="module")
def racer(exchange: Path) -> Path:
    return compile_to(exchange / "raced", [HERE / "raced.c"], ("-O1",))


def written(place: Path, text: str) -> Path:
    path = place / f"{abs(hash(text)):x}.aspect"
    path.write_text(text)
    return path


def compiled(kernel: KernelTarget, path: Path, shared: bool = True) -> WovenKernel:
    """The kernel's part of the aspects. Its compiled module is cached for a weaver in the machine, which would take
    minutes to compile it."""
    file = confined_file(read_aspects(path), shared)
    aspects = numbered(file, automata(file))
    one = WovenKernel(kernel, file, aspects, WovenLayout(aspects, file.tables))
    _ = one.compiled
    return one


def nothing_is_left(guest: Guest) -> None:
    """Assert that there is no module, and no client of the driver."""
    gone = "n=0; while grep -q ^gilk_ /proc/modules && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done"
    assert "gilk_" not in guest.run("sh", "-c", f"{gone}; cat /proc/modules")
    driver = Driver(guest.link)
    status = driver.status()
    guest.link.close_driver()
    assert (status.clients, status.units, status.orphans) == (1, 0, 0)
    assert not guest.complaints()


def read_for(client: int) -> int:
    """The number of bytes that the program reads for a client, by its source."""
    return sum(500 + 100 * client for each in range(ROUNDS) if each % 3 == client)


@pytest.mark.stress
def test_a_sequence_begins_in_a_process_and_goes_on_in_the_kernel(
    kernel: KernelTarget, guest: Guest, image: Path, server: Path, exchange: Path
) -> None:
    """The count of each client is the bytes that the program reads of its file for that client, and nothing else."""
    path = written(exchange, SERVED)
    compiled(kernel, path)
    with guest.text_untouched():
        away = Away(guest, [str(image), "-", str(path), str(server), str(ROUNDS)])
        told = away.end()
    end = told[-1]
    sums = {client.to_bytes(64, "little").hex(): read_for(client) for client in range(3)}
    assert dict(end["tables"]["bytes"]) == sums, away.said.decode()
    assert end["counts"] == {"#1": [[ROUNDS, sum(sums.values()) // 100, ROUNDS], ROUNDS, ROUNDS, 0]}
    assert end["restored"] == [True, True]
    assert away.said.decode().splitlines().count("done") == 1
    nothing_is_left(guest)


SIDED = """
group A; table calls key(long) count;
A, K: call(long __x64_sys_getsid(const void *r)) && return(n) then after { add(calls, n > 0, 1); };
aspect sided: A, K: call(long __x64_sys_getsid(const void *r)) then { report("%s", jp.function); };
aspect own: A: call(long __x64_sys_getsid(const void *r));
A: call(void stop(long n)) then { aspect_off(sided); };
"""


@pytest.mark.stress
def test_an_element_is_in_a_process_and_in_the_kernel_at_once(
    kernel: KernelTarget, guest: Guest, image: Path, exchange: Path
) -> None:
    """The program, by its source, calls its own function four times and the kernel's six; the last call of each comes
    when advice has switched the named aspect off, on both sides. An aspect without a name has the number that it has in
    the file."""
    sided = compile_to(exchange / "sided", [HERE / "sided.c"], ("-O1",))
    path = written(exchange, SIDED)
    compiled(kernel, path)
    with guest.text_untouched():
        away = Away(guest, [str(image), "-", str(path), str(sided)])
        told = away.end()
    end = told[-1]
    assert {name: found[0] for name, found in end["counts"].items()} == {
        "#1": [4 + 6], "sided": [3 + 5], "own": [4], "#4": [1]
    }, away.said.decode()  # fmt: skip
    assert [one["report"] for one in told if "report" in one] == ["__x64_sys_getsid"] * (3 + 5)
    assert end["restored"] == [True, True]
    assert "done 26 8" in away.said.decode()
    nothing_is_left(guest)


#: A sequence each of whose elements is in a process and in the kernel. Either has its own way to the number meant.
MIXED = """
group A;
%{ #include <sys/types.h>
struct pt_regs;
#define ABOUT(r) (*(const long *)(r)) %}
%K{ #define ABOUT(r) ((r)->di) %}
unique(who, about) var(long steps = 0) seq(
  A, K: call(long __x64_sys_getsid(const struct pt_regs *r)) && bind(pid_t who, pid()) && bind(long about, ABOUT(r));
  A, K: call(long __x64_sys_getpgid(const struct pt_regs *s)) && bind(pid_t who, pid()) && bind(long about, ABOUT(s))
     && return(x) then after { steps += 1; } *;
  A, K: call(long __x64_sys_getppid(const struct pt_regs *t)) && bind(pid_t who, pid()) && bind(long about, ABOUT(t))
     then { report("%s: %ld after %ld", jp.image, about, steps); })
until A, K: call(long __x64_sys_getuid(const struct pt_regs *u)) && if (pid() == who && ABOUT(u) == about);
"""
CALLED = {"b": "__x64_sys_getsid", "s": "__x64_sys_getpgid", "e": "__x64_sys_getppid", "u": "__x64_sys_getuid"}


def by_the_model(path: Path, words: list[str]) -> tuple[list[str], list[object]]:
    """The reports and the counts of the aspect in the model, for the calls that the words say."""
    (automaton,) = automata(read_aspects(path))
    model, reports = AspectModel((automaton,), {"A": (1,)}), list[str]()
    for word in words:
        function, about, kernel = CALLED[word[0].lower()], int(word[1]), word[0].isupper()
        values = tuple((f"ABOUT({each})", about) for each in "rstu")
        side = "kernel" if kernel else "mixed"
        for kind in (EventKind.CALL, EventKind.RETURN):
            value = 0 if kind is EventKind.RETURN else None
            arguments = (0,) if kind is EventKind.CALL else ()
            event = AspectEvent(kind, function, arguments, value, image=side, values=values, kernel=kernel)
            reports += [str(one.words) for one in model.step(event) if one.did is Did.REPORTS]
    (tally,) = model.counts().values()
    return reports, [list(tally.matches), tally.begun, tally.ended, tally.open]


@pytest.mark.stress
def test_elements_of_a_sequence_are_in_a_process_and_in_the_kernel_at_once(
    kernel: KernelTarget, guest: Guest, image: Path, exchange: Path
) -> None:
    """Either side begins, continues and ends instances of either; the model says what becomes of the calls. The reports
    of each side are in order."""
    mixed, path = compile_to(exchange / "mixed", [HERE / "mixed.c"], ("-O1",)), written(exchange, MIXED)
    chance = Random(15)
    words = [chance.choice("bBbBsSsSsSeEeEuU") + chance.choice("012") for _ in range(200)]
    compiled(kernel, path)
    with guest.text_untouched():
        away = Away(guest, [str(image), "-", str(path), str(mixed), *words])
        told = away.end()
    reports, counts = by_the_model(path, words)
    assert len(reports) > 10 and any(not one.endswith(" 0") for one in reports)
    for side in ("kernel", "mixed"):
        found = [one["report"] for one in told if one.get("report", "").startswith(side)]
        assert found == [one for one in reports if one.startswith(side)], away.said.decode()
    assert told[-1]["counts"] == {"#1": counts}
    assert told[-1]["restored"] == [True, True]
    nothing_is_left(guest)


def said_by(racer: bytes) -> tuple[dict[str, str], list[int], int]:
    """The racer's output: by step, the file that the open gave; how often the race gave its own file, the secret and
    none; and the attacker's process number."""
    rows = [line.split() for line in racer.decode().splitlines() if not line.startswith("{")]
    (attacker,) = (int(row[1]) for row in rows if row[0] == "attacker")
    (race,) = ([int(one) for one in row[1:]] for row in rows if row[0] == "raced")
    return {row[0]: row[1] for row in rows if len(row[0]) == 1}, race, attacker


@pytest.mark.stress
def test_a_race_is_stopped_and_the_attacker_is_named(
    kernel: KernelTarget, guest: Guest, image: Path, racer: Path
) -> None:
    """An attacker exchanges the file of a program. Without the aspect the program reads the secret at each step that
    changes the file, and at last in the race; with the aspect it never does. The attacker is named, but nobody for
    changes of other files, or for what the program itself has done."""
    opened = {"n": "own", "e": "secret", "m": "secret", "u": "secret", "o": "own", "r": "own", "s": "secret"}
    status, said, errors = guest.vm.run([str(racer), "/run/raced.alone", "1"], timeout=PATIENCE)
    assert (status, said_by(said)[0], said_by(said)[1][1:]) == (0, opened, [1, 0]), errors
    compiled(kernel, RACE)
    with guest.text_untouched():
        away = Away(guest, [str(image), "-", str(RACE), str(racer), "/run/raced", str(ROUNDS)])
        told = away.end()
    steps, (fine, stolen, denied), attacker = said_by(bytes(away.said))
    assert steps == {one: what if what == "own" else "EACCES" for one, what in opened.items()}
    assert (fine > 0, stolen, denied) == (True, 0, ROUNDS)
    by = f"race on name, by {attacker}"
    reports = [one["report"] for one in told if "report" in one]
    assert reports[:5] == [by, by, by, f"name is the same file, and {attacker} was at it", "race on name, by 0"]
    raced = [one for one in reports[5:] if not one.startswith("name is")]
    assert len(raced) == ROUNDS and set(raced) <= {by, "race on name, by 0"}
    assert told[-1]["restored"] == [True, True]
    nothing_is_left(guest)


@pytest.mark.stress
def test_a_refusal_of_either_leaves_both_unchanged(
    kernel: KernelTarget, guest: Guest, image: Path, server: Path, exchange: Path
) -> None:
    """The kernel refuses when the process has its part already; the process refuses when the kernel has its memory."""
    paths = [written(exchange, text) for text in REFUSED]
    for path in paths:
        compiled(kernel, path)
    with guest.text_untouched():
        told = Away(guest, [str(image), "-", ",".join(map(str, paths)), str(server), str(ROUNDS)]).end()
        nothing_is_left(guest)
    assert [one["error"] for one in told] == ["cannot-weave", "does-not-compile"]
    assert [one["restored"] for one in told] == [[True, True], [True, True]]


@pytest.mark.stress
@pytest.mark.parametrize("step", ["shared", "processes", "kernel", "on"])
def test_a_weaver_that_is_killed_leaves_nothing(
    kernel: KernelTarget, guest: Guest, image: Path, server: Path, exchange: Path, step: str
) -> None:
    """This holds wherever the weaver is in its work; the program, which waits to begin, is killed with it."""
    path = written(exchange, SERVED)
    compiled(kernel, path)
    with guest.text_untouched():
        away = Away(guest, [str(image), step, str(path), str(server), str(ROUNDS)])
        away.until("waits")
        away.process.signal(signal.SIGKILL)
        assert away.process.wait(PATIENCE) == 128 + signal.SIGKILL
        nothing_is_left(guest)


MANY = f"""
%K{{ #include <linux/sched.h> %}}
table names key(char[16], long) max;
aspect all: seq(K: {GETSID} && bind(char name[16], current->comm) && bind(long about, regs->di);
  K: call(long __x64_sys_getpgid(const struct pt_regs *regs)) && bind(char name[16], current->comm)
     then {{ add(names, name, about, about); }}) within 10s;
aspect keyed: unique(who) var(int n = 0) seq(K: {GETSID} && return(r) && bind(pid_t who, pid());
  K: call(long __x64_sys_getpgid(const struct pt_regs *regs)) && if (pid() == who)
     then {{ n += 1; if (n % 4000 == 0) report("%s %d", current->comm, n); }} *;
  K: call(long __x64_sys_getppid(void)) && if (pid() == who) && if (n % 7 == 3)) until K: call(long ksys_sync(void));
aspect text: perthread seq(K: {GETSID} && bind(char word[200], current->comm);
  K: call(long __x64_sys_getppid(void)) && if (strcmp(word, current->comm) == 0) then {{ report("%s", word); }});
"""


@contextmanager
def woven_alone(kernel: KernelTarget, path: Path) -> Iterator[tuple[WovenKernel, int]]:
    """The kernel's part alone, woven, with its state in memory that processes can have; the number is a descriptor
    of the relay's."""
    one = compiled(kernel, path)
    try:
        descriptor = one.share()
        one.weave()
        yield one, descriptor
    finally:
        one.abandon()


def matches(one: WovenKernel) -> list[int]:
    """How often the first element of each aspect has matched, by the state."""
    view = bytearray(one._layout.size)
    one.read_state(view)
    return [each.matches[0] for each in WovenState(one._layout, one._aspects, memoryview(view)).counts()]


def scribbled(vm: VM, program: Path, descriptor: int, amount: int) -> bytes:
    """Have the program in the machine write into the memory that the relay, its parent, has open as ``descriptor``."""
    script = f"exec {program} /proc/$PPID/fd/{descriptor} {amount}"
    status, said, errors = vm.run(["sh", "-c", script], timeout=PATIENCE)
    assert status == 0, (status, said, errors)
    return said


def test_a_process_that_overwrites_the_shared_state_does_no_harm(
    kernel: KernelTarget, guest: Guest, scribbler: Path, exchange: Path
) -> None:
    """The kernel of these tests panics at the first warning, and nothing is mapped after the end of the memory."""
    with guest.text_untouched(), woven_alone(kernel, written(exchange, MANY)) as (one, descriptor):
        assert scribbled(guest.vm, scribbler, descriptor, 0) == b"survived\n"
        assert matches(one) == [2, 2, 2]
        assert scribbled(guest.vm, scribbler, descriptor, 8) == b"survived\n"
    nothing_is_left(guest)


#: The bounds checks of numbers in the state, in native/include/gilk_aspect.h, and their replacements without the check.
BOUNDS = {"return high < limit ? high : limit;": "return high + 0 * limit;", "at = at < limit ? at : 0;": ""}


@pytest.fixture
def believing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build modules with headers that trust the state's number of instances, and its index of a free one."""
    native = tmp_path / "native"
    shutil.copytree(NATIVE, native)
    header = native / "include" / "gilk_aspect.h"
    text = header.read_text()
    for bounded, believed in BOUNDS.items():
        assert bounded in text
        text = text.replace(bounded, believed)
    header.write_text(text)
    monkeypatch.setattr(kernel_instrument, "NATIVE", native)
    monkeypatch.setattr(kept_module, "NATIVE", native)


@pytest.mark.stress
def test_without_checks_the_overwritten_state_crashes_the_kernel(
    believing: None, scribbler: Path, exchange: Path, tmp_path: Path
) -> None:
    """The same program, and the same aspects, bring a machine down without the checks."""
    with boot(Machine(cpus=2, arguments=STRICT, rw=(exchange,))) as machine:
        guest = Guest(machine, tmp_path)
        guest.load()
        kernel = KernelTarget(guest.link)
        with pytest.raises(MachineGone), woven_alone(kernel, written(exchange, MANY)) as (_, descriptor):
            scribbled(machine, scribbler, descriptor, 0)


LEADING = {
    "if (m->x)": "where m leads",
    "if (*(long *)((char *)current + n))": "where n leads",
    "if (strcmp(m, current->comm) == 0)": "where m leads",
    "bind(long y, m->x)": "where m leads",
    "bind(struct thing *p, m) && if (p->x)": "where p leads",
}


@pytest.mark.parametrize("condition", LEADING)
def test_pointers_from_shared_state_are_not_followed(exchange: Path, condition: str) -> None:
    text = f"""
group A;
seq(A: call(void serve(struct thing *m, long n));
  K: {GETSID} && {condition} && if (n && m));
"""
    with pytest.raises(UsageError) as error:
        confined_file(read_aspects(written(exchange, text)))
    assert error.value.slug == "cannot-weave"
    assert LEADING[condition] in error.value.message


UNKNOWN = {
    "bind(struct thing x, *m)": "what x is made of",
    "bind(x, m)": "what x is made of",
    "bind(long x, 1)": "",
    "bind(char x[16], (char *)m)": "",
    "bind(struct in6_addr x, *(struct in6_addr *)m)": "",
}


@pytest.mark.parametrize("bound", UNKNOWN)
def test_state_shared_by_kernel_and_process_has_types_that_both_know(tmp_path: Path, bound: str) -> None:
    text = f"group A; seq(A: call(void serve(void *m)) && {bound}; A: call(void served(long other)) && if (sizeof x);"
    file = read_aspects(written(tmp_path, f"{text} K: {GETSID});"))
    aspects = numbered(file, automata(file))
    if not UNKNOWN[bound]:
        check_possible(file, aspects)
        return
    with pytest.raises(UsageError) as error:
        check_possible(file, aspects)
    assert (error.value.slug, UNKNOWN[bound] in error.value.message) == ("cannot-weave", True)
