# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes that fork, execute, exit, load and unload while they are instrumented."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gilk
from gilk.api import runs
from gilk.targets.memory import ProcessMemory
from gilk.targets.refusals import expecting
from gilk.targets.writer import Mismatch
from tests.behaviour.harness import (
    ENVIRONMENT,
    Loop,
    ToldByLetters,
    children,
    differences,
    leftovers,
    plain,
    redirected,
    run,
    wait_for,
)
from tests.programs.build import build, compile_text
from tests.seldom import seldom

#: Does what single letters on standard input tell it, and answers each with a line.
PUPPET = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pthread.h>

static void *plugin, *code;
__attribute__((noinline, noclone)) long work(long x) { for (int i = 0; i < 10; i++) x = x & 1 ? x * 3 + 1 : x >> 1; __asm__ volatile("" ::: "memory"); return x; }
static void *calls(void *n) { for (long i = 0; i < (long)n; i++) work(i); return NULL; }

int main(int argc, char **argv)
{
	setvbuf(stdin, NULL, _IONBF, 0); /* letters for the program that it may execute stay unread */
	for (int letter; (letter = getchar()) != EOF;) {
		pthread_t threads[8];
		pid_t child;
		if (letter == 'w')
			for (int i = 0; i < 100; i++) work(i);
		if (letter == 'f' && !fork()) { /* a child that outlives its parent, and works until told by a file */
			fclose(stdin);
			while (access(argv[1], F_OK)) { work(5); usleep(100); }
			_exit(0);
		}
		if (letter == 'F' && !(child = fork())) { for (int i = 0; i < 1000; i++) work(i); _exit(0); }
		if (letter == 'F') waitpid(-1, NULL, 0);
		if (letter == 't') for (int round = 0; round < 25; round++) {
			for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, calls, (void *)100L);
			for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
		}
		if (letter == 'o') { plugin = dlopen(argv[2], RTLD_NOW); code = dlsym(plugin, "plugin_hot"); }
		if (letter == 'p') for (int i = 0; i < 10; i++) ((int (*)(int))code)(i);
		if (letter == 'c') { static long events; *(long **)dlsym(plugin, "plugin_events") = &events; dlclose(plugin); }
		if (letter == 'm') { /* something else where the plugin was */
			void *page = (void *)((unsigned long)code & -4096UL);
			if (mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page) abort();
			memset(page, 0xe9, 4096);
		}
		if (letter == 'k') for (int i = 0; i < 4096; i++)
			if (((unsigned char *)((unsigned long)code & -4096UL))[i] != 0xe9) abort();
		if (letter == 'x') execl("/bin/cat", "cat", NULL); /* to the end of its input */
		if (letter == 'y') execv("/proc/self/exe", argv);
		if (letter == 'e') { work(1); exit(3); }
		if (letter == 's') raise(11);
		printf("%c\n", letter);
		fflush(stdout);
	}
	return 0;
}
"""


class Puppet(ToldByLetters):
    """The running PUPPET."""

    def __init__(self, directory: Path) -> None:
        flags = ("-O2", "-fPIE", "-pie", "-Wno-unused-parameter")
        program = compile_text(directory, "puppet", "#include <signal.h>\n" + PUPPET, *flags)
        self.end = directory / "end"
        words = [str(program), str(self.end), str(build("plugin"))]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def do(self, letters: str) -> None:
        assert self.process.stdout
        for letter in letters:
            self.send(letter)
            assert self.process.stdout.readline() == f"{letter}\n".encode(), self.process.poll()


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Puppet]:
    made = Puppet(tmp_path)
    yield made
    made.end.touch()
    made.process.kill()
    made.process.communicate()


def counts_by_process(session: gilk.Session, probe: gilk.Probe) -> dict[int, int]:
    found: dict[int, int] = {}
    drain = session.drain
    for index, identity in zip(drain._in_use(), drain.identities(), strict=True):
        count = int(drain._shared.counters[index][probe.row.counter])
        found[identity.pid] = found.get(identity.pid, 0) + count
    return found


def test_a_forked_child_is_counted_separately(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        (probe,) = session.insert("work:entry", gilk.count)
        puppet.do("wF")
        apart = counts_by_process(session, probe)
        assert apart.pop(puppet.pid) == 100
        assert list(apart.values()) == [1000]
        assert session.counts()[probe.row.point] == 1100
    assert session.restored is True


def test_a_child_is_restored_when_the_session_ends(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        session.insert("*:blocks", gilk.count)
        puppet.do("f")
        (child,) = children(puppet.pid)
        assert differences(child)
    assert session.restored is True
    for pid in (puppet.pid, child):
        assert differences(pid) == []
        assert leftovers(pid) == []
    assert Path(f"/proc/{child}").exists()


def test_a_child_that_outlives_its_parent_is_restored(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        (probe,) = session.insert("work:entry", gilk.count)
        session.insert("*:blocks", gilk.count)
        puppet.do("f")
        (child,) = children(puppet.pid)
        puppet.send("e")
        assert puppet.process.wait() == 3
        before = counts_by_process(session, probe).get(child, 0)
        assert wait_for(lambda: counts_by_process(session, probe).get(child, 0) > before)
    assert Path(f"/proc/{child}").exists()
    assert differences(child) == []
    assert leftovers(child) == []


def test_a_child_is_restored_when_the_client_dies(puppet: Puppet) -> None:
    code = (
        "import sys, time\nimport gilk\ntarget = gilk.attach(int(sys.argv[1]))\nsession = target.session()\n"
        "session.insert('*:blocks', 'count')\nprint('in', flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, **ENVIRONMENT}
    client = subprocess.Popen([sys.executable, "-c", code, str(puppet.pid)], env=environment, stdout=subprocess.PIPE)
    assert client.stdout and client.stdout.readline() == b"in\n"
    puppet.do("f")
    (child,) = children(puppet.pid)
    client.kill()
    client.communicate()
    for pid in (puppet.pid, child):
        assert wait_for(lambda: not leftovers(pid) and not differences(pid)), pid


def test_threads_may_come_and_go_during_a_session(puppet: Puppet) -> None:
    """600 threads run, eight at a time, with blocks for 64, which are used again. For each thread all of its hits
    are counted, or none."""
    ran, hits = 600, 100  # for each thread
    with gilk.attach(puppet.pid) as target, target.session(threads=64) as session:
        (probe,) = session.insert("work:entry", gilk.count)
        for _ in range(3):
            puppet.do("t")
            assert wait_for(lambda: not _waits_for_room(session))
        count = session.counts()[probe.row.point]
        assert count % hits == 0 and 64 < count // hits < ran
        assert 0 < session.drain.lost() <= ran * hits - count


def _waits_for_room(session: gilk.Session) -> bool:
    """Whether no block is free. Blocks of threads that have ended become free after some calls of poll()."""
    session.poll()
    return bool(session.drain._shared.control["exhausted"])


def test_counts_of_200_threads_are_exact(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        (probe,) = session.insert("work:entry", gilk.count)
        puppet.do("t")
        assert session.counts()[probe.row.point] == 25 * 8 * 100
        assert session.drain.lost() == 0


def test_a_process_may_execute_another_program_during_a_session(puppet: Puppet) -> None:
    flags = ["--json", "-i", "*:blocks=count", "-p", str(puppet.pid)]
    words = [sys.executable, "-m", "gilk", "run", *flags]
    client = subprocess.Popen(words, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert wait_for(lambda: differences(puppet.pid))
    puppet.do("w")
    puppet.send("x")
    out, _ = client.communicate(timeout=250)
    text = out.decode()
    assert '"partial": true' in text and "executed another program" in text
    assert re.search(r'"puppet:work:@0:pre": 100\b', text)
    assert leftovers(puppet.pid) == []
    assert differences(puppet.pid) == []
    assert puppet.process.communicate()[0] == b""
    assert puppet.process.returncode == 0


def test_instruments_for_a_program_that_is_no_longer_executed_are_refused(puppet: Puppet) -> None:
    """The program that is executed now is left alone, although it has the same file."""
    with gilk.attach(puppet.pid) as target, target.session() as session:
        session.insert("work:entry", gilk.count)
        puppet.send("y")
        puppet.do("w")  # it is the new program that answers
        with pytest.raises(gilk.TargetError) as raised:
            session.insert("*:blocks", gilk.count)
        assert raised.value.slug == "no-such-process" and "executed another program" in raised.value.message
    assert leftovers(puppet.pid) == [] and differences(puppet.pid) == []


def test_a_program_that_is_replaced_amid_a_change_is_said_to_have_gone(puppet: Puppet) -> None:
    """Its code cannot be read any more; no other tool has changed it."""
    memory = ProcessMemory(puppet.pid)
    puppet.send("y")
    puppet.do("w")
    with pytest.raises(gilk.TargetError) as raised, expecting(puppet.pid, memory):
        raise Mismatch(0x400000)
    memory.close()
    assert raised.value.slug == "no-such-process"


def test_a_launched_program_may_execute_another(tmp_path: Path) -> None:
    """The second program goes on until the run has told of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def told() -> bool:
        return any("executed another program" in note for note in running.notes)

    with redirected() as (out, _):
        requests = [runs.parse_request("*:blocks=count")]
        running = runs.prepare_run(requests, [], ["/bin/sh", "-c", f"exec cat '{pipe}'"])
        running.begin()
        running.wait(60, told, lambda _: None)
        assert told()
        pipe.write_bytes(b"done")
        running.wait(60, lambda: False, lambda _: None)
        result = running.finish()
        out.seek(0)
        assert (out.read(), result.partial) == (b"done", True)


def test_a_process_may_execute_programs_again_and_again() -> None:
    """The program executes again sooner than anybody looks (docs/limits.md): the report is about the first image,
    and nothing is broken."""
    ran = run(["*:blocks=count"], [build("exec")])
    assert ran.visible == plain([build("exec")]).visible


def test_attaching_to_a_process_that_executes_programs_all_the_time() -> None:
    """Attaching succeeds, or fails with an error of gilk's; the program goes on."""
    with Loop([build("exec")]) as loop:
        for _ in range(5):
            with contextlib.suppress(gilk.GilkError), gilk.attach(loop.pid) as target, target.session() as session:
                session.insert("*:blocks", gilk.count)
        assert loop.alive()


def test_a_process_may_exit_during_a_session(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        (probe,) = session.insert("work:entry", gilk.count)
        (_timed, *_) = session.insert("work:entry", gilk.time)
        puppet.do("w")
        puppet.send("e")
        assert puppet.process.wait() == 3
        session.poll()
        rest = session.close()
        assert session.counts()[probe.row.point] == 101
    assert session.restored is True
    assert rest is not None


def test_a_process_may_die_by_a_signal_during_a_session(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        (_probe,) = session.insert("*:entry", gilk.count)[:1]
        puppet.send("s")
        assert puppet.process.wait() == -11
        session.close()
    assert session.restored is True


def test_a_library_opened_later_can_be_instrumented(puppet: Puppet) -> None:
    with gilk.attach(puppet.pid) as target, target.session() as session:
        session.insert("work:entry", gilk.count)
        puppet.do("o")
        (probe,) = session.insert("plugin.so:plugin_hot:entry", gilk.count)
        puppet.do("pp")
        assert session.counts()[probe.row.point] == 20
    assert session.restored is True
    assert differences(puppet.pid) == []
    puppet.do("p")


def test_an_instrumented_library_may_be_closed(puppet: Puppet) -> None:
    """gilk must not restore the memory that is mapped there afterwards."""
    puppet.do("o")
    with gilk.attach(puppet.pid) as target, target.session() as session:
        session.insert("plugin.so:*:blocks", gilk.count)
        puppet.do("pc")
        puppet.do("m")
    puppet.do("k")
    assert differences(puppet.pid) == []
    assert leftovers(puppet.pid) == []


def test_an_instrumented_library_may_be_closed_and_opened_again(puppet: Puppet) -> None:
    puppet.do("o")
    with gilk.attach(puppet.pid) as target, target.session() as session:
        session.insert("plugin.so:*:blocks", gilk.count)
        puppet.do("pco")
        session.insert("work:entry", gilk.count)
        puppet.do("p")
    assert differences(puppet.pid) == []
    puppet.do("pcop")


@pytest.mark.parametrize(
    "name", seldom(["fork", "dlopen", "vfork", "ucontext", "spawn", "signals", "exceptions", "backtrace"], 2)
)
def test_sessions_count_while_a_program_goes_on_forking_and_loading(name: str) -> None:
    """Each of several sessions begins and ends while the program runs."""
    with Loop([build(name)]) as loop:
        for _ in range(3):
            with gilk.attach(loop.pid) as target, target.session() as session:
                session.insert("*:blocks", gilk.count)
                session.insert("*:entry", gilk.stamp)
                assert wait_for(lambda: session.poll().num_rows > 5)
            assert session.restored is True
            assert differences(loop.pid) == []


def test_the_counts_of_a_launched_program_are_exact() -> None:
    with redirected() as (out, _), gilk.launch([str(build("dlopen")), "20"]) as target, target.session() as session:
        (probe,) = session.insert("use_plugin:entry", gilk.count)
        target.resume()
        while target.process.wait(block=False) is None:
            time.sleep(0.01)
        assert session.counts()[probe.row.point] == 20
        out.seek(0)
        assert b"calls plugin_hot 200\n" in out.read()
