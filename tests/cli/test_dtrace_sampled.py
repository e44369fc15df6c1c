# SPDX-License-Identifier: LGPL-2.1-or-later
"""profile-N without a process: it fires for whatever the processors of this machine run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.errors import TargetError
from gilk.targets.processor_samples import Counted, ProcessorSamples
from gilk.targets.topology import online
from tests.programs.build import compile_text

SPINS = """
static volatile unsigned long n;
static __attribute__((noinline)) void spins_here(void) { for (int i = 0; i < 100000; i++) n++; }
int main(void) { for (;;) spins_here(); }
"""
Dtrace = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dtrace(gilk_on_path: dict[str, str], tmp_path: Path) -> Dtrace:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        try:
            ProcessorSamples([Counted(1, 0, 10_000_000)]).close()
        except TargetError as error:
            pytest.skip(str(error))
        command = ["gilk", "dtrace", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, env=gilk_on_path, capture_output=True, text=True, timeout=300)

    return run


def test_samples_are_of_the_processes_that_run_with_all_that_d_knows_of_them(dtrace: Dtrace, tmp_path: Path) -> None:
    """The oracle is the program's text, and /proc: who it is, whose child, and where its function is."""
    with subprocess.Popen([compile_text(tmp_path, "spins", SPINS)]) as child:
        script = f"""
            profile-499 /pid == {child.pid}/ {{
                @where[execname, ufunc(arg1)] = count(); n++; self->met++; @met = max(self->met);
                @wrong["wrong"] = sum(ppid != {os.getpid()} || uid != {os.getuid()} || tid != pid || errno
                    || (arg0 != 0) == (arg1 != 0) || (arg1 && uregs[R_RIP] != arg1) || vtimestamp == 0); }}
            profile-499 /pid == {child.pid} && arg1/ {{ this->byte = *(char *)uregs[R_RSP]; @read = count(); }}
            profile-499 /n >= 60/ {{ exit(0); }}
            END {{ printa("%s %@d\\n", @wrong); printa(@where); printa("met %@d\\n", @met); }}"""
        done = dtrace("-q", "-n", script)
        child.kill()
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "wrong 0" in done.stdout
    rows = re.findall(r"^ +spins +(\S+) +(\d+)$", done.stdout, re.M)
    inside = sum(int(number) for name, number in rows if name == "spins`spins_here")
    assert inside > 30, done.stdout
    assert "error" not in done.stdout
    (met,) = re.findall(r"^met (\d+)$", done.stdout, re.M)
    assert 60 <= int(met) == sum(int(number) for _, number in rows)


def test_samples_of_the_kernel_have_addresses_of_the_kernel(dtrace: Dtrace) -> None:
    script = """
        profile-997 /arg0/ { @in[(int64_t)arg0 < 0] = count(); k++; }
        profile-997 /arg1/ { @out[(int64_t)arg1 < 0] = count(); u++; }
        profile-997 /k && u/ { exit(0); }
        profile-97 /!pid/ { @idle[execname, cpu] = count(); }
        END { printa("kernel %d\\n", @in); printa("user %d\\n", @out); printa("idle %s %d\\n", @idle); }"""
    done = dtrace("-q", "-n", script)
    assert (done.returncode, done.stderr) == (0, ""), done
    kinds = {tuple(line.split()) for line in done.stdout.splitlines() if line and not line.startswith("idle")}
    assert kinds == {("kernel", "1"), ("user", "0")}
    for name, cpu in re.findall(r"^idle (\S+) (\d+)$", done.stdout, re.M):
        assert name == f"swapper/{cpu}"


def test_facts_about_gilk_are_not_told_of_other_processes(dtrace: Dtrace) -> None:
    script = """
        profile-499 /pid && pid != $pid/ { wrong += curpsinfo->pr_argc != 0; n++; }
        BEGIN { printf("%d\\n", curpsinfo->pr_argc); } profile-499 /n > 10/ { printf("%d", wrong); exit(0); }"""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        done = dtrace("-q", "-n", script)
        child.kill()
    assert done.returncode == 0
    own, wrong = done.stdout.split()
    assert int(own) >= 4 and wrong == "0"


def test_a_processor_can_be_chosen(dtrace: Dtrace) -> None:
    last = max(os.sched_getaffinity(0))
    script = """
        profile-499 { @[cpu] = count(); n++; }
        profile-499 /n >= 20/ { exit(0); }
        END { printa("%d\\n", @); }"""
    done = dtrace("-q", "-x", f"cpu={last}", "-n", script)
    assert done.stdout.split() == [str(last)]


def test_a_tick_that_asks_who_runs_is_told_what_the_first_processor_runs(dtrace: Dtrace, tmp_path: Path) -> None:
    with subprocess.Popen([compile_text(tmp_path, "spins", SPINS)]) as child:
        first = online()[0]
        os.sched_setaffinity(child.pid, {first})
        script = f"""
            tick-499 /pid == {child.pid}/ {{
                n++; @wrong = sum(cpu != {first} || execname != "spins" || tid != pid || (arg0 != 0) == (arg1 != 0)); }}
            tick-499 /n == 20/ {{ exit(0); }} END {{ printa("wrong %@d\\n", @wrong); }}"""
        done = dtrace("-q", "-n", script)
        child.kill()
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "wrong 0", ""), done


def test_samples_of_a_process_are_in_the_kernel_where_it_is(dtrace: Dtrace) -> None:
    script = """
        profile-997 /arg0/ { @[pid == $target, arg1 != 0] = count(); n++; } profile-997 /n == 20/ { exit(0); }
        END { printa("%d %d\\n", @); }"""
    done = dtrace("-q", "-n", script, "-c", "dd if=/dev/zero of=/dev/null")
    assert (done.returncode, done.stdout.split()) == (0, ["1", "0"]), done


def test_rows_of_a_function_of_the_kernel_are_one(dtrace: Dtrace) -> None:
    script = "profile-997 /arg0/ { @[mod(arg0)] = count(); n++; } profile-997 /n == 20/ { exit(0); }"
    done = dtrace("-q", "-n", script, "-c", "dd if=/dev/zero of=/dev/null")
    assert (done.returncode, len(re.findall(r"^ +vmlinux +[0-9]+$", done.stdout, re.M))) == (0, 1), done


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_profile_fires_in_gilk_alone_where_sampling_is_not_permitted(gilk_on_path: dict[str, str]) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) < 1:
        pytest.skip("here everybody may sample processors")
    site = os.pathsep.join(part for part in sys.path if part.endswith("site-packages"))
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-m", "gilk", "dtrace"]
    words += ["-q", "-n", 'profile-97 { n++; } profile-97 /n == 3/ { printf("%d", pid == $pid); exit(0); }']
    environment = {**gilk_on_path, "HOME": "/nonexistent", "GILK_CACHE": f"/tmp/gilk-nobody-{os.getpid()}"}
    environment["PYTHONPATH"] = os.pathsep.join((environment.get("PYTHONPATH", ""), site))
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd="/", timeout=120)
    if "No module named" in done.stderr:
        pytest.skip("this Python is not readable by others")
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done
    assert (
        "dtrace: profile-N has fired in gilk alone: the processors cannot be sampled: Permission denied" in done.stderr
    )
