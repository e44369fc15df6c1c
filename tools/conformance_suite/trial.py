# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run one test: the command that it asks for, in a directory of its own, within its deadline."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conformance_suite.case import Case, modules
from conformance_suite.comparison import Ran, Verdict, judge
from conformance_suite.door import INSIDE
from conformance_suite.guest import in_guest

_DEADLINE = 41.0  # seconds, as in the suite itself
_HEADERS = "uts/common"  # the <sys/sdt.h> that DTrace installs
_INCLUDES = ("-Iinclude", "-Iuts/common", "-Ilibdtrace", "-DARCH_x86_64")
_PLAIN = (  # compilers differ in what they print besides line and error
    "-fno-diagnostics-show-caret -fdiagnostics-color=never -fno-diagnostics-show-option -fno-show-column"
)


def stand_in(folder: Path, command: list[str]) -> Path:
    """The program ``dtrace`` in ``folder``, which executes ``command``.

    It is made before threads start processes: a process that another thread forks meanwhile keeps the file open for
    writing until it executes its own program, and execve(2) of such a file fails with ETXTBSY.
    """
    tool = folder / "dtrace"
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    tool.chmod(0o755)
    return tool


@dataclass(frozen=True)
class Manner:
    """How all tests are run: ``tool`` takes the place of dtrace; ``patience``: deadlines are that many times as long;
    ``anything``: also those that change the machine; ``elsewhere``: programs run in another machine's kernel, with the
    commands that ``-c`` gives them. ``inside``: the command dtrace for tests that run inside a virtual machine, scripts
    and those whose program begins first; if it is empty, they are skipped where ``elsewhere``."""

    tool: Path
    patience: float = 1.0
    anything: bool = False
    elsewhere: bool = False
    inside: tuple[str, ...] = ()


def trial(case: Case, manner: Manner) -> Verdict:
    expected_to_fail = "xfail" in case.directives and "no-xfail" not in case.directives
    if "skip" in case.directives or expected_to_fail or any(_excludes(each, case) for each in case.exclusions):
        return Verdict("skipped", "the suite says so")
    goes_inside = manner.elsewhere and (case.is_script or _begins_first(case))
    goes_inside |= bool(manner.inside) and case.names_a_module
    if case.changes_the_machine and not manner.anything and not (goes_inside and manner.inside):
        return Verdict("skipped", "it changes settings of the machine")
    if goes_inside and not manner.inside:
        return Verdict("skipped", "what it starts would run here, not where the kernel is")
    trigger = case.root / case.trigger.split(" ")[0]
    if case.trigger and not trigger.exists():
        return Verdict("skipped", f"{trigger.name} is not built")
    for _ in range(case.tries):
        with tempfile.TemporaryDirectory() as folder:
            run = partial(_inside, command=list(manner.inside)) if goes_inside else partial(_in, tool=manner.tool)
            verdict = run(Path(folder), case, deadline=_deadline(case) * manner.patience)
        if verdict.result == "passed":
            break
    return verdict


def _excludes(file: Path, case: Case) -> bool:
    """Whether the file says that the test is expected to fail; one that is a program says so by its exit status."""
    if not os.access(file, os.X_OK):
        return True
    done = subprocess.run([str(file)], cwd=case.root, capture_output=True, timeout=_DEADLINE, check=False)
    return done.returncode != 0


def _begins_first(case: Case) -> bool:
    """Whether its program runs already when tracing begins, in the place of being the command of ``-c``."""
    return bool(case.trigger) and case.directives.get("trigger-timing", "synchro") != "synchro"


def _deadline(case: Case) -> float:
    digits = re.sub(r"\D", "", case.directives.get("timeout", ""))
    return max(_DEADLINE, float(digits or 0))


def _inside(folder: Path, case: Case, command: list[str], deadline: float) -> Verdict:
    """The verdict on a test that is run in a virtual machine of its own."""
    environment = _environment(folder, case, INSIDE / "dtrace", deadline)
    begun = case.trigger if _begins_first(case) else ""
    words = _words(case, folder / INSIDE / "dtrace", environment, "$_pid" if begun else "")
    wanted = modules(case.root) if case.names_a_module else ()
    ran = in_guest(words, begun, case.root, environment, deadline, folder, command, wanted)
    filtered = _filtered(case, ran, environment)
    return Verdict("skipped", filtered.errors) if filtered.status is None else judge(case, ran, filtered.output)


def _environment(folder: Path, case: Case, tool: Path, deadline: float) -> dict[str, str]:
    environment = {
        **os.environ, "LC_ALL": "C", "_DTRACE_TESTING": "t", "tmpdir": str(folder), "timeout": str(int(deadline)),
        "PATH": f"{tool.parent}:{os.environ['PATH']}", "_test": case.name, "dt_flags": "",
        "test_cppflags": f"-I{case.root / _HEADERS}",
        "tst": str(Path(case.name).with_suffix("")), "DTRACE_OPT_CPPARGS": _PLAIN,
        "GILK_PROGRESS": "0",  # lines that DTrace does not print
    }  # fmt: skip
    if case.is_script:
        environment["dt_flags"] = case.directives.get("runtest-opts", "")
    return environment


def _in(folder: Path, case: Case, tool: Path, deadline: float) -> Verdict:
    environment = _environment(folder, case, tool, deadline)
    started = None
    if _begins_first(case):
        started = _start(case.trigger.split(), case, environment)
        given = environment["dt_flags"] if case.is_script else ""
        environment["dt_flags"] = re.sub(r"\$_pid\b", str(started.pid), given)
    try:
        words = _words(case, tool, environment, "" if started is None else str(started.pid))
        ran = _run(words, case, environment, deadline)
        filtered = _filtered(case, ran, environment)
        return Verdict("skipped", filtered.errors) if filtered.status is None else judge(case, ran, filtered.output)
    finally:
        if started is not None:
            started.kill()
            started.wait()


def _words(case: Case, tool: Path, environment: dict[str, str], traced: str) -> list[str]:
    if case.is_script:
        return ["bash", case.name, str(tool)]
    words = [
        str(tool),
        *(["-e"] if case.kind == "demo" and not case.trigger and "trigger" not in case.directives else []),
        *_INCLUDES,
    ]
    words += ["-xerrtags"] if case.tag.startswith("D_") else []
    words += ["-xdroptags"] if case.kind == "drp" else []
    words += [*_own_options(case), "-s", case.name, *_options(case, environment, traced)]
    return words + (["-c", case.trigger] if case.trigger and not traced else [])


def _own_options(case: Case) -> list[str]:
    """The options of dtrace in the first line of the test, without -s, which takes the file itself."""
    first = case.path.read_text(errors="replace").partition("\n")[0]
    given = first.removeprefix("#!dtrace -")
    letters = given.split(" ")[0].removesuffix("s")
    return [f"-{letters}"] if given != first and letters.isalpha() else []


def _options(case: Case, environment: dict[str, str], traced: str) -> list[str]:
    """The arguments that the test asks for, expanded by a shell."""
    given = case.directives.get("runtest-opts", "")
    if not given:
        return []
    known = {**environment, "_pid": traced}
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {given}"], cwd=case.root, env=known, capture_output=True, text=True, check=False
    )
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else given.split()


def _start(words: list[str], case: Case, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    null = subprocess.DEVNULL
    return subprocess.Popen(words, cwd=case.root, env=environment, stdin=null, stdout=null, stderr=null)


def _run(words: list[str], case: Case, environment: dict[str, str], deadline: float) -> Ran:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words,
        cwd=case.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    status: int | None = None
    try:
        output, errors = process.communicate(timeout=deadline)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
    return Ran(status, output.decode(errors="replace"), errors.decode(errors="replace"))


def _filtered(case: Case, ran: Ran, environment: dict[str, str]) -> Ran:
    """The output after the test's own filter, ``.r.p``. If the filter cannot run, ``status`` is None, and ``errors``
    says why."""
    filter_ = case.path.with_suffix(".r.p")
    if not os.access(filter_, os.X_OK):
        return Ran(0, ran.whole, "")
    try:
        done = subprocess.run(
            [str(filter_)], input=ran.whole, cwd=case.root, env=environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return Ran(None, "", f"its filter cannot be run: {error.strerror}")
    return Ran(0, done.stdout, "")
