# SPDX-License-Identifier: LGPL-2.1-or-later
"""Words that users of bpftrace, uftrace, gdb, perf and their like type first, and gilk's own words for the same."""

from __future__ import annotations

from typing import Final

_ATTACH: Final = (
    "each command takes -p PID: gilk top -p PID, gilk trace -p PID, gilk run -i 'FUNCTION:entry=time' -p PID"
)
_RECORD: Final = (
    "gilk trace -- COMMAND records every call; "
    "gilk run -i 'FUNCTION:entry=time' -o FILE -- COMMAND those of some functions"
)
_SHOW: Final = "gilk show FILE has the records, gilk show --tree FILE the tree of calls"
_POINT: Final = (
    "gilk run -i 'FUNCTION:entry=args' -p PID records the calls of a function; =count, =time and =stack do less or more"
)
_COUNT: Final = "gilk run -i 'FUNCTION:entry=count' -p PID counts; without a name at hand, gilk scan --list FILE"
_TIME: Final = "gilk run -i 'FUNCTION:entry=time' -p PID"
_STACK: Final = "gilk run -i 'FUNCTION:entry=stack' -p PID shows who calls a function, without stopping the program"
_LIST: Final = "gilk scan --list FILE lists the functions of a program, gilk dtrace -l -p PID the probes of D"
_D: Final = "gilk dtrace -n 'PROGRAM IN D' -p PID; docs/d has the language"
_CALLS: Final = "gilk syscalls -p PID has a table; gilk dtrace -n 'syscall:::entry' -p PID has each call"
_WAITS: Final = "gilk offcpu -p PID shows where threads wait"
_MEMORY: Final = "gilk mallocs -p PID shows who allocates memory, and what is not freed"
_LOCKS: Final = "gilk locks -p PID shows who waits for mutexes"

#: Commands of other programs, and programs, with the command of gilk that does the same.
COMMANDS: Final = {
    "annotate": "gilk run -i '*:blocks=count' --coverage FILE -- COMMAND counts lines; gilk cfg FILE FUNCTION has code",
    "argdist": _D,
    "args": _POINT,
    "attach": _ATTACH,
    "backtrace": _STACK,
    "bpftrace": _D,
    "break": _POINT,
    "breakpoint": _POINT,
    "bt": _STACK,
    "count": _COUNT,
    "coverage": "gilk run -i '*:blocks=count' --coverage FILE.info -- COMMAND",
    "detach": "a session ends with Ctrl-C, or after --for SECONDS; gilk restore PID is for one that was killed",
    "disas": "gilk cfg FILE FUNCTION",
    "disassemble": "gilk cfg FILE FUNCTION",
    "dump": "gilk export FILE --to csv, or folded, chrome, perfetto; gilk query FILE SQL",
    "flamegraph": "gilk show FILE --flame calls.svg",
    "funccount": _COUNT,
    "funclatency": _TIME,
    "funcslower": "gilk slow FUNCTION --longer-than 5ms -p PID",
    "graph": _SHOW,
    "help": "gilk --help lists the commands, gilk COMMAND --help has the options of one",
    "info": _LIST,
    "kmem": _MEMORY,
    "kprobe": "gilk run --on lab -i 'kernel:FUNCTION:entry=count' -- COMMAND",
    "latency": _WAITS,
    "list": _LIST,
    "live": "gilk trace -- COMMAND, and then gilk show --tree trace.parquet; gilk top -- COMMAND is live",
    "lock": _LOCKS,
    "ltrace": "gilk trace -- COMMAND records every call, in the program and its libraries",
    "mem": _MEMORY,
    "memleak": _MEMORY,
    "offcputime": _WAITS,
    "opensnoop": "gilk dtrace -n 'syscall::openat:entry { printf(\"%s\", copyinstr(arg1)); }' -p PID",
    "print": _D,
    "probe": _POINT,
    "profile": "gilk top -p PID shows in which functions time is spent",
    "ps": "gilk run --name GLOB, --user USER or --children-of PID chooses processes",
    "record": _RECORD,
    "replay": _SHOW,
    "report": _SHOW,
    "sched": _WAITS,
    "script": "gilk query FILE SQL, or gilk export FILE --to csv",
    "stack": _STACK,
    "stackcount": _STACK,
    "stat": _COUNT,
    "strace": _CALLS,
    "syscount": _CALLS,
    "time": _TIME,
    "tui": "gilk web opens a window in the browser; " + _SHOW,
    "uftrace": "gilk trace -- COMMAND, and then gilk show --tree trace.parquet",
    "uprobe": _POINT,
    "usdt": "gilk run -i 'usdt:PROVIDER:NAME=count' -p PID",
    "version": "gilk --version",
    "watch": "gilk run --every 1s -i 'FUNCTION:entry=count' -p PID; for a variable, gilk weave",
}

#: Options without a command, as other programs have them.
OPTIONS: Final = {"-p": _ATTACH, "--pid": _ATTACH, "-n": _D, "-e": _D, "-l": _LIST, "-V": "gilk --version"}

_UNTIL: Final = "--stop for:10s ends a trace after ten seconds, --stop exit with the program"
#: Options that a command lacks although another has them, by both names.
LACKING: Final = {
    ("trace", "--for"): _UNTIL,
    ("trace", "-i"): "--scope 'IMAGE:FUNCTION' chooses the functions",
    ("trace", "--insert"): "--scope 'IMAGE:FUNCTION' chooses the functions",
    ("dtrace", "--for"): "a clause ends the program, as in tick-10s { exit(0); }",
    ("run", "-n"): "gilk dtrace -n takes D; gilk run -i 'FUNCTION:entry=count' needs none",
}

#: Options and arguments that must be there, by the names of the command and of the parameter.
MISSING: Final = {
    ("run", "inserts"):
        "for example -i 'main:entry=count', -i 'libc:malloc:entry=time'; gilk top and gilk trace do without",
    ("scan", "target"): "for example gilk scan /bin/bash, or gilk scan PID",
}  # fmt: skip


def for_command(word: str) -> str:
    """A hint for somebody who typed ``gilk WORD``; '' if there is none."""
    import shutil

    if word in COMMANDS:
        return COMMANDS[word]
    if shutil.which(word):
        return f"a program goes behind a command: gilk trace -- {word}, gilk top -- {word}"
    return ""


def for_option(command: str, option: str) -> str:
    """A hint for an option that the command does not have ('gilk' is no command at all); '' if there is none."""
    return OPTIONS.get(option, "") if command == "gilk" else LACKING.get((command, option), "")


def for_missing(command: str, parameter: str) -> str:
    """A hint for an option or argument that is not there; '' if there is none."""
    return MISSING.get((command, parameter), "")
