# SPDX-License-Identifier: LGPL-2.1-or-later
"""The reading of what a user asks of dtrace, into programs, macros and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gilk.engines.dtrace import meant
from gilk.engines.dtrace.compiled import ProgramText
from gilk.engines.dtrace.consumer import Consumer
from gilk.errors import GilkError, TargetError, UsageError
from gilk.inputs import read_text
from gilk.lang.d.macros import Macros
from gilk.lang.d.options import BadOption, Options
from gilk.lang.syntax.source import Source
from gilk.targets.kernel.own import HERE, is_loaded
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.engines.dtrace.machine import MachineView, OtherMachine
    from gilk.targets.launch import Until
    from gilk.targets.process import Process

_ENVIRONMENT = "DTRACE_OPT_"
#: Options that affect how the program text itself is read.
_EARLY = re.compile(r"^\s*#\s*pragma\s+D\s+option\s+(defaultargs|argref)\s*$", re.MULTILINE)
#: The option that says how far a program of -c runs before anything else is done.
_EVALTIME = re.compile(r"^\s*#\s*pragma\s+D\s+option\s+evaltime=(\w+)\s*$", re.MULTILINE)
_CPP = re.compile(rb"^\s*#\s*pragma\s+D\s+option\s+cpp\s*$", re.MULTILINE)
#: The empty fields that complete a description given by -P, -m or -f; a program may follow the description.
_REST = {"P": ":::", "m": "::", "f": ":"}
_WITHOUT_NUMBERS = {"P": "providers", "f": "functions"}  # options whose names do not begin with a digit
#: The option's number, which ends after its digits, and a name behind it. No probe has such a name, so it comes first.
_NUMBERED = re.compile(r"^(\d+)(-[^\s{/;]+)")
_DESCRIBED = re.compile(r"\s*([^\s{/;]*)(.*)", re.DOTALL)
#: The name of a program for cpp, as in DTrace: in its complaints, and as __FILE__.
_INPUT = b"/dev/stdin"
_INPUT_LINE = re.compile(rb'^(# \d+ )"/dev/stdin"', re.MULTILINE)
#: The macros that DTrace defines; __GNUC__ is undefined, so that headers leave out code that is only for compilers.
_CPP_OPTIONS = ("-D__GILK_D__", "-D__linux", "-D__unix", "-D__SVR4", "-D__SUNW_D=1", "-U__GNUC__")
_C99 = "-std=c99"  # with it, headers leave out extensions such as the functions of <endian.h>, which are not D
#: Options of cpp by the letter of -X, which says how strictly the standard of C is followed; all but "s" are the same
#: in DTrace.
STANDARDS = {**dict.fromkeys(("a", "c", "t"), _C99), "s": "-traditional-cpp"}


@dataclass(frozen=True)
class Preprocess:
    """How to preprocess programs. ``wanted``: whether -C or #pragma D option cpp asks for it."""

    wanted: bool = False
    defines: tuple[str, ...] = ()
    undefines: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    tells_includes: bool = False  # -H
    standard: str = ""  # -X: a, c, s or t
    command: str = "cpp"
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """The request of a user. ``programs``: for each, the letter of its option, and its text or the name of a script.

    ``options``: name and value of each -x. ``objects``: the files for -G.
    """

    programs: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()
    pid: int | None = None
    command: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    preprocess: Preprocess = field(default_factory=Preprocess)
    objects: tuple[str, ...] = ()
    machine: str = ""  # --on
    follow: bool = False  # --follow
    others: tuple[int, ...] = ()  # processes besides pid
    runs: bool = True  # whether the program runs: neither -l nor -e alone
    by_number: bool = False  # whether descriptions name processes by number, rather than -p


def prepare(asked: Asked) -> Consumer:
    """The consumer of the request, with its process attached or launched; nothing in the process has changed yet.

    Raises UsageError `bad-d-option`, `cannot-open-script`, `preprocessor-failed`, `two-processes`, TargetError.
    """
    options, texts = _read(asked)
    asked = _placed(asked, options, texts)
    if asked.others and not asked.machine and not asked.runs:
        what = "-e and -l are about one process, unless the program is about a kernel: give one -p"
        raise UsageError("two-modes", what)
    if asked.others and not asked.machine:
        return _prepare_several(asked, options, texts)
    if asked.follow:
        return _prepare_tree(asked, options, texts)
    if asked.machine:
        return _prepare_there(asked, options, texts)
    process = _process(asked, options.text("evaltime"))
    return _consumer(asked, options, texts, process)


def about(asked: Asked, process: Process | None, machine: MachineView | None = None) -> Consumer:
    """The consumer of the request for a process or a kernel that the caller has, or for neither, whatever the programs
    name. Raises UsageError."""
    return _consumer(asked, *_read(asked), process, machine)


def on(machine: OtherMachine, asked: Asked) -> Consumer:
    """The consumer of the request for the kernel of a machine that the caller has, where the command is started, if
    there is one. $target is the process of the command, or the first of those asked for. Raises UsageError, TargetError
    `no-such-process`, `cannot-launch`."""
    return _consumer_on(machine, asked, *_read(asked))


def _consumer_on(machine: OtherMachine, asked: Asked, options: Options, texts: list[ProgramText]) -> Consumer:
    target = asked.pid or 0
    if asked.command:
        target = machine.start(asked.command, _until(options.text("evaltime")))
    if not asked.command and asked.pid is not None:
        machine.attend((asked.pid, *asked.others), asked.by_number)
    macros = _macros(asked, options, target, machine.own)
    return Consumer(texts, macros, options, None, asked.libraries, machine)


def _read(asked: Asked) -> tuple[Options, list[ProgramText]]:
    options = _options(asked)
    preprocess = _with_options(asked.preprocess, options)
    texts = [_text(letter, given, preprocess) for letter, given in asked.programs]
    for text in texts:
        for found in _EARLY.finditer(text.source.text):
            options.set(found[1], None)
        for found in _EVALTIME.finditer(text.source.text):
            with suppress(BadOption):  # the error is told with its line when the program is compiled
                options.set("evaltime", found[1])
    return options, texts


def _consumer(
    asked: Asked, options: Options, texts: list[ProgramText], process: Process | None,
    machine: MachineView | None = None,
) -> Consumer:  # fmt: skip
    target = 0 if process is None else process.pid
    return Consumer(texts, _macros(asked, options, target), options, process, asked.libraries, machine)


def _prepare_tree(asked: Asked, options: Options, texts: list[ProgramText]) -> Consumer:
    """A consumer for a tree of processes. The first process is stopped, as later ones are, before its constructors
    run."""
    from gilk.engines.dtrace.tree_consumer import TreeConsumer  # imported here: few need it

    if asked.machine or (asked.pid is None and not asked.command):
        what = "--follow is about the processes of this machine that begin with -p or -c"
        raise UsageError("cannot-follow", what, "give -p PID or -c COMMAND, and no --on")
    evaltime = options.text("evaltime")
    process = _process(asked, "preinit" if evaltime == "main" else evaltime)
    assert process is not None
    return TreeConsumer(texts, _macros(asked, options, process.pid), options, process, asked.libraries)


def _prepare_several(asked: Asked, options: Options, texts: list[ProgramText]) -> Consumer:
    """A consumer for several processes that run. The first of them is $target; probes of pid$target are put into all of
    them, and with --follow into what they start."""
    from gilk.engines.dtrace.forest_consumer import ForestConsumer  # imported here: few need it
    from gilk.engines.dtrace.several_consumer import SeveralConsumer
    from gilk.engines.dtrace.tree_consumer import let_go_of
    from gilk.session.broker.client import approached

    assert asked.pid is not None
    with ExitStack() as held:
        processes = []
        for pid in (asked.pid, *asked.others):
            processes.append(approached(pid))
            held.callback(let_go_of, processes[-1])
        macros = _macros(asked, options, asked.pid)
        kind = ForestConsumer if asked.follow else SeveralConsumer
        consumer = kind(texts, macros, options, processes[0], asked.libraries, by_number=asked.by_number)
        consumer.adopt(processes[1:])
        held.pop_all()
    return consumer


def _prepare_there(asked: Asked, options: Options, texts: list[ProgramText]) -> Consumer:
    """A consumer for a kernel on a machine that is reached for it, where the whole program runs."""
    from gilk.engines.dtrace.machine import OtherMachine  # imported here: few need it

    if asked.machine == "lab" and asked.pid is not None:
        what = f"{asked.machine} is a fresh machine, which has no process {asked.pid} that anybody could mean"
        raise TargetError("no-such-process", what, "give -c COMMAND, which runs there")
    machine = OtherMachine.reached(asked.machine)
    try:
        return _consumer_on(machine, asked, options, texts)
    except BaseException:
        machine.close()
        raise


def _options(asked: Asked) -> Options:
    options = Options()
    named = (
        (name[len(_ENVIRONMENT) :].lower(), value)
        for name, value in os.environ.items()
        if name.startswith(_ENVIRONMENT)
    )
    for name, value in (*named, *asked.options):
        try:
            options.set(name, value or None)
        except BadOption as bad:
            raise UsageError("bad-d-option", f"failed to set -x {name}: {bad}") from None
    return options


def _with_options(how: Preprocess, options: Options) -> Preprocess:
    return replace(
        how,
        wanted=how.wanted or options.flag("cpp"),
        defines=(*how.defines, *options.text("define").splitlines()),
        undefines=(*how.undefines, *options.text("undef").splitlines()),
        includes=(*how.includes, *options.text("incdir").splitlines()),
        tells_includes=how.tells_includes or options.flag("cpphdrs"),
        standard=how.standard or options.text("stdc"),
        command=options.text("cpppath"),
        arguments=tuple(options.text("cppargs").split()),
    )


def _text(letter: str, given: str, preprocess: Preprocess) -> ProgramText:
    if letter != "s":
        return _description(letter, given)
    try:
        content = read_text(Path(given)).encode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError("cannot-open-script", f"failed to open {given}: {error.strerror}") from None
    if preprocess.wanted or _CPP.search(content):
        content = _preprocessed(given, content, preprocess)
    return ProgramText("script", Source(given, content.decode("utf-8", "surrogateescape")))


def _description(letter: str, given: str) -> ProgramText:
    """A program of one description from the command line, with the fields that its option leaves out added as empty
    ones."""
    found = _DESCRIBED.match(given)
    if found is None or letter not in _REST:
        text = _NUMBERED.sub(r"\2, \1", given) if letter == "i" else given
        return ProgramText("description", Source(given, text), _no_number(letter, given))
    fields, wanted = found[1].split(":"), 4 - len(_REST[letter])
    refused = _no_number(letter, given)
    if any(fields[:-wanted]):
        refused = f'invalid probe description "{found[1]}": Overspecified probe description'
    completed = ":".join(fields[-wanted:]) + _REST[letter]
    return ProgramText("description", Source(given, f"{completed}{found[2]}"), refused)


def _no_number(letter: str, given: str) -> str:
    """The reason why the number at the start of a description is refused, or "". Names of modules may begin with a
    digit."""
    number = re.match(r"\s*(\d+)", given)
    if number is None or letter not in (*_WITHOUT_NUMBERS, "i"):
        return ""
    if letter in _WITHOUT_NUMBERS:
        return f"probe identifier {number[1]} not permitted when specifying {_WITHOUT_NUMBERS[letter]}"
    return "" if number[1].strip("0") else f"invalid probe identifier {number[1]}: Unknown probe identifier"


def _preprocessed(name: str, content: bytes, how: Preprocess) -> bytes:
    words = [Path(how.command).name, *_CPP_OPTIONS, *(f"-D{each}" for each in how.defines)]
    words += [f"-U{each}" for each in how.undefines]
    words += [f"-I{each}" for each in (*how.includes, str(Path(name).resolve().parent))]
    words += ["-H"] * how.tells_includes
    words += (STANDARDS[how.standard], *how.arguments)
    if content.startswith(b"#!"):
        content = b"//" + content
    content = b'# 1 "%s"\n' % _INPUT + content
    try:
        done = subprocess.run(words, executable=how.command, input=content, capture_output=True, check=False)
    except OSError as error:
        what = f"{how.command} cannot be run: {error.strerror}"
        raise UsageError("preprocessor-failed", what, "install cpp") from None
    sys.stderr.write(done.stderr.decode(errors="replace"))
    if done.returncode:
        what = f"failed to compile script {name}: Preprocessor failed to process input program"
        raise UsageError("preprocessor-failed", what)
    quoted = b'"%s"' % os.fsencode(name).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return _INPUT_LINE.sub(lambda line: line[1] + quoted, done.stdout)


def _placed(asked: Asked, options: Options, texts: list[ProgramText]) -> Asked:
    """The request with its target filled in, if none of -p, -c and --on names one: the processes that the program
    names, or the kernel of this machine, if the program is about it and the driver is loaded."""
    named, loaded = asked.pid is not None or bool(asked.command), is_loaded()
    if asked.machine or (named and not loaded):
        return asked
    libdir = options.text("libdir")
    directories = (*asked.libraries, *([libdir] if libdir else []))
    found = meant.descriptions(texts, _macros(asked, options, 0), options, directories)
    if not named:
        pids = meant.processes_meant(found)
        asked = replace(asked, pid=pids[0], others=pids[1:], by_number=True) if pids else asked
    has_process = asked.pid is not None or bool(asked.command)
    return replace(asked, machine=HERE) if loaded and meant.is_of_kernel(found, has_process) else asked


def _process(asked: Asked, evaltime: str) -> Process | None:
    """The process that is asked for, attached or launched; other sessions may have a part in it."""
    if asked.pid is not None:
        from gilk.session.broker.client import approached

        return approached(asked.pid)
    if not asked.command:
        return None
    from gilk.targets.meeting import rendezvous
    from gilk.targets.startup import start  # imported here: programs without a process do not need it

    process = start(list(asked.command), until=_until(evaltime))
    process.meeting = rendezvous(process.pid)
    return process


def _until(evaltime: str) -> Until:
    """The place at which a program of -c is stopped for probes to go in."""
    from gilk.targets.launch import Until

    return {"exec": Until.EXEC, "preinit": Until.LINKED}.get(evaltime, Until.MAIN)


def _macros(asked: Asked, options: Options, target: int, own: int = 0) -> Macros:
    """``own``: the number of gilk's own process, if not of this one."""
    values = {
        "pid": own or os.getpid(), "ppid": os.getppid(), "uid": os.getuid(), "euid": os.geteuid(), "gid": os.getgid(),
        "egid": os.getegid(), "pgid": os.getpgrp(), "sid": os.getsid(0), "projid": 0, "taskid": 0,
        "target": target,
    }  # fmt: skip
    program = next((given for letter, given in asked.programs if letter == "s"), "dtrace")
    return Macros(values, (program, *asked.arguments), options.flag("defaultargs"), options.flag("argref"))


def let_go(consumer: Consumer) -> None:
    """Let go of the consumer's process, whatever has happened; the process is then what it was.

    A launched process is killed, as in DTrace (PS_RELEASE_KILL in its libproc); if it has not begun, it never does.
    """
    consumer.leave()
    if consumer.machine is not None:
        consumer.machine.close()
    if consumer.process is not None:
        consumer.process.kill_unstarted()
        try:
            consumer.process.close(kill=True)
        except GilkError:
            consumer.process.keeper.leave()
        consumer.process.meeting.close()
