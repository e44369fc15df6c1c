# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk``: the list of subcommands, and the handling of their errors.

To add a subcommand `x`: a row in COMMANDS, a click command `x` in cli/x.py, a page docs/cli/x.md, a test
tests/cli/test_x.py. A command that returns an `int` ends with that status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

import click

from gilk.cli.failure import report
from gilk.cli.ignored import hear_ignored_interrupts
from gilk.cli.scarce import refuse_libraries
from gilk.cli.unheard import watch
from gilk.version import VERSION

# Help texts are here, not in the modules, so that `gilk --help` loads none of them.
COMMANDS = {
    "doctor": "Show what works on this machine, what is missing, and how to get it.",
    "scan": "Count the functions, blocks and points of a program, by how each point can be spliced.",
    "cfg": "Show one function: disassembly and control-flow graph, points numbered.",
    "run": "Put instruments into a running or new process and bring back the samples.",
    "trace": "Follow the flow of control from one event to another: every call, with its time.",
    "top": "Show in which functions a process spends its time, live.",
    "syscalls": "Count and time the system calls of a process.",
    "mallocs": "Say who allocates memory in a process, how much, and how much of it is freed.",
    "locks": "Say who takes mutexes in a process, and how long that takes.",
    "offcpu": "Say where the threads of a process wait, in which system calls, and for how long.",
    "slow": "Show the calls of a function that take long, and where they come from.",
    "dtrace": "Run D programs, as dtrace(1) does, on a process.",
    "aspect": "Check files of aspects: when something is to happen in programs and the kernel, and what.",
    "weave": "Weave a file of aspects into running processes: advice at calls, and at sequences of them.",
    "experiment": "Run a session that a file describes: instruments, and when each goes in and out.",
    "show": "Print a file of samples.",
    "query": "Ask a file of samples a question in SQL.",
    "export": "Write a trace for Perfetto, chrome://tracing, flame graph programs, or as CSV.",
    "diff": "Compare two traces of the same work: calls, their order, and their times.",
    "anomalies": "Find the calls of a trace that are unlike others of the same path.",
    "lab": "Run a command, or a shell, in a disposable virtual machine with a stock kernel.",
    "driver": "Build, load, unload or show the kernel module that gilk needs to change the kernel.",
    "plot": "Draw a file of samples: steps, scatter, histograms, power spectra.",
    "web": "Serve the window: see and do in a browser what the other commands do.",
    "restore": "Put a process right after gilk itself was killed.",
}


#: Thresholds of the garbage collector. Images and plans have hundreds of thousands of small values, hardly any in a
#: cycle: collecting less often makes a session of thousands of probes start in a fifth less time.
_COLLECTION = 50_000, 20, 100
_SPARE = 4 << 20  # bytes that are kept for the message if memory runs out
#: Shells set this variable to ask for their completion script, or for the words that may come next.
_COMPLETION = "_GILK_COMPLETE"


class NoSuchCommand(click.UsageError):
    """The first word is no command of gilk. ``hint``: gilk's own word for it, if it is one of another tool."""

    def __init__(self, message: str, ctx: click.Context, hint: str) -> None:
        super().__init__(message, ctx)
        self.hint = hint


class Commands(click.Group):
    """A group that imports a subcommand when it is used, so that one broken or missing part leaves the rest working."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if importlib.util.find_spec(f"gilk.cli.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(importlib.import_module(f"gilk.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        completing = ctx.resilient_parsing  # a shell is completing: unfinished words are no errors
        if args and not completing and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            import difflib

            from gilk.cli import other_words

            hint = other_words.for_command(args[0])
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1) if not hint else []
            raise NoSuchCommand(
                f"No such command {args[0]!r}.{f' Did you mean {near[0]!r}?' if near else ''}", ctx, hint
            )
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(VERSION, prog_name="gilk", message="%(prog)s %(version)s")
def cli() -> None:
    """Put code of your choice anywhere in a running program, and take it out again."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return the exit status."""
    gc.set_threshold(*_COLLECTION)
    arguments = list(sys.argv[1:] if argv is None else argv)
    given = tuple(arguments)  # click consumes its list
    spare = bytes(_SPARE)  # which the kernel need not provide: unlike a bytearray, it is never written to
    try:
        result = _invoke(arguments)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        del spare
        return report(error, as_json=wants_json(given))
    finally:
        _complain()
    return result if isinstance(result, int) else 0


def _complain() -> None:
    """Print, once for each, the directories that gilk did not use because others could change the files in them."""
    if "gilk.private" in sys.modules:
        from gilk.api import machine

        for each in machine.complaints():
            print(f"gilk: not used, as others could change what lies there: {each} (cache-unusable)", file=sys.stderr)


def run(argv: Sequence[str] | None = None) -> int:
    """Run the program ``gilk``: call main(), then end the process at once.

    Freeing everything that was read of a process and its libraries would take longer than reading it.
    """
    status: int | None = None

    def end() -> None:
        if status is not None:
            sys.stderr.flush()
            os._exit(status)

    atexit.register(end)  # registered first, so it is called last
    refuse_libraries()
    watch()
    hear_ignored_interrupts()
    status = main(argv)
    return status


def _invoke(arguments: list[str]) -> object:
    """Call click, but not `cli.main`, which would end the process itself when the reader of gilk's output has gone."""
    if instruction := os.environ.get(_COMPLETION):
        from click.shell_completion import shell_complete  # here: commands need not wait for it

        return shell_complete(cli, {}, "gilk", _COMPLETION, instruction)
    try:
        with cli.make_context("gilk", arguments) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is an option of gilk itself rather than of the command that gilk launches (after ``--``)."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own
