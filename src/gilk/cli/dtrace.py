# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace``: D programs, with the options and the output of dtrace(1)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gilk.api import ahead
from gilk.cli.dtrace_manner import Manner, Mode
from gilk.cli.mangled import mangled_option
from gilk.cli.running import split_command
from gilk.errors import UsageError
from gilk.version import VERSION

if TYPE_CHECKING:
    from gilk.api import dtrace as d_programs

_REFUSED = {
    "narrow": ("32", "32-bit processes are not traced"),
    "boot": ("A", "nothing is traced while the machine starts"),
    "claim": ("a", "nothing was traced while the machine started"),
}
_MODES = {"listing": Mode.LIST, "header": Mode.HEADER, "link": Mode.LINK}


def _one_command(_ctx: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The callback of -c. It refuses several commands: to take the last would silently drop the others."""
    if len(values) > 1:
        raise UsageError("two-processes", "-c is given more than once: one command is traced")
    return values[0] if values else None


class _Programs(click.Command):
    """A click command that also notes -n, -s, -P, -m, -f and -i in the order in which the command line has them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        values, _, order = parser.parse_args(args=list(args))
        taken: dict[str, int] = {}
        given = []
        for parameter in order:
            name = parameter.name or ""
            if name in ("n", "s", "P", "m", "f", "i"):
                index = taken.get(name, 0)
                taken[name] = index + 1
                given.append((name, values[name][index]))
        ctx.obj = given
        return super().parse_args(ctx, args)


def _program(letter: str, what: str) -> Callable[[Any], Any]:
    return click.option(f"-{letter}", letter, multiple=True, metavar="TEXT", help=f"Enable or list {what}.")


@click.command(cls=_Programs, context_settings={"allow_interspersed_args": True, "help_option_names": ["--help"]})
@_program("n", "probes by name, with a program")
@_program("s", "the probes of a script")
@_program("P", "the probes of a provider")
@_program("m", "the probes of a module")
@_program("f", "the probes of a function")
@_program("i", "a probe by its number")
@click.option(
    "-p", "pids", type=int, multiple=True, metavar="PID",
    help="Attach to a process; $target is its number. Repeated, all are one: $target names them all.",
)  # fmt: skip
@click.option(
    "-c", "command", multiple=True, callback=_one_command, metavar="COMMAND",
    help="Run a command, and end when it does; $target is its number.",
)  # fmt: skip
@click.option(
    "--on", "machine", default="", metavar="MACHINE",
    help="In whose kernel the program runs, and where COMMAND does: here, lab (a fresh virtual machine) or ssh:HOST.",
)  # fmt: skip
@click.option(
    "--follow", is_flag=True,
    help="Trace also what the process begins, and the programs that are executed, as one: $target names them all.",
)  # fmt: skip
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Append output to FILE; make a table of FILE.parquet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line for each event.")
@click.option("-l", "listing", is_flag=True, help="List the probes that are meant, and enable none.")
@click.option("-h", "header", is_flag=True, help="Write a C header of the providers that the program defines.")
@click.option("-G", "link", is_flag=True, help="Write the object file that makefiles expect; mark calls of probes.")
@click.option("--words", type=click.IntRange(0), metavar="N", help="Print the words for letter N of the program.")
@click.option("-e", "compile_only", is_flag=True, help="Compile, and exit.")
@click.option("-q", "quiet", is_flag=True, help="Print only what the program prints.")
@click.option("-w", "destructive", is_flag=True, help="Permit destructive actions.")
@click.option("-v", "verbose", is_flag=True, help="Print how stable programs are, and the probes of -l.")
@click.option("-F", "flow", is_flag=True, help="Indent what functions call.")
@click.option("-Z", "zero", is_flag=True, help="Permit descriptions that match no probes.")
@click.option("-S", "emit", is_flag=True, help="Print the C that the program was compiled to.")
@click.option("-b", "bufsize", metavar="SIZE", help="Size of the principal buffers.")
@click.option("-x", "options", multiple=True, metavar="OPTION[=VALUE]", help="Set an option.")
@click.option("-C", "cpp", is_flag=True, help="Run cpp on scripts first.")
@click.option("-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro for cpp.")
@click.option("-U", "undefines", multiple=True, metavar="NAME", help="Undefine one.")
@click.option("-I", "includes", multiple=True, metavar="DIRECTORY", help="Where cpp looks for files.")
@click.option("-L", "libraries", multiple=True, metavar="DIRECTORY", help="Read the libraries *.d there first.")
@click.option("-H", "headers", is_flag=True, help="Have cpp tell which files it includes.")
@click.option("-X", "standard", type=click.Choice(["a", "c", "s", "t"]), help="How strictly cpp takes C's standard.")
@click.option("-64", "wide", is_flag=True, help="64-bit processes: there are no others.")
@click.option("-32", "narrow", is_flag=True, hidden=True)
@click.option("-A", "boot", is_flag=True, hidden=True)
@click.option("-a", "claim", is_flag=True, hidden=True)
@click.option("-V", "version", is_flag=True, help="Print the version, and exit.")
@click.argument("arguments", nargs=-1)
@click.pass_context
@mangled_option
def dtrace(ctx: click.Context, /, **given: Any) -> int:
    """Run D programs: `gilk dtrace -n 'pid$target:libc.so.6:malloc:entry { @ = count(); }' -p PID`.

    The words after the options are the macro arguments $1, $2...
    """
    name = "dtrace"
    if given["version"]:
        click.echo(f"{name}: gilk {VERSION}, D 2.0")
        return 0
    _refuse(given)
    pids = tuple(dict.fromkeys(given["pids"]))
    given["pid"], given["others"] = (pids[0], pids[1:]) if pids else (None, ())
    if pids and given["command"] is not None:
        raise UsageError("two-processes", "-p and -c exclude each other")
    if not ctx.obj and not given["listing"] and not given["compile_only"]:
        raise UsageError("no-d-program", "there is no program", "give one with -n or -s")
    mode = _mode(given)
    if given["words"] is not None:
        return _words(ctx.obj, given, mode)
    if given["others"] and mode not in (Mode.RUN, Mode.LIST, Mode.COMPILE):
        raise UsageError("two-modes", "-G, -h and --words are about one process: give one -p")
    if given["follow"] and mode is not Mode.RUN:
        raise UsageError("two-modes", "--follow is about programs that run: -e, -G, -h and -l run none")
    if not given["machine"]:
        ahead.expect(given["pid"] is not None or given["command"] is not None, mode is Mode.RUN)
    from gilk.cli.dtrace_session import carry_out  # here: the keeper of the process starts while this is imported

    testing = "_DTRACE_TESTING" in os.environ
    manner = Manner(mode, given["output"], given["emit"], given["verbose"], testing, given["as_json"])
    if manner.as_json and manner.as_table:
        raise UsageError("two-modes", "--json prints lines, and -o FILE.parquet makes a table: only one can be given")
    return carry_out(name, _request(ctx.obj, given, mode), manner)


def _words(programs: list[tuple[str, str]], given: dict[str, Any], mode: Mode) -> int:
    """Print the words that may stand at a place of the program (--words), and return the exit status. Raises
    UsageError."""
    if mode is not Mode.RUN or any(given[name] for name in ("machine", "command", "output", "follow", "others")):
        raise UsageError("two-modes", "--words prints words, about a process of -p or none: nothing else goes with it")
    from gilk.cli.dtrace_words import print_words  # here: running a program need not wait for it

    return print_words(programs, given["pid"], given["words"], given["as_json"])


def _request(programs: list[tuple[str, str]], given: dict[str, Any], mode: Mode) -> d_programs.Asked:
    """The request that the command line makes. The words after the options are object files with -G, else macro
    arguments."""
    from gilk.api import dtrace as d_programs

    preprocess = d_programs.Preprocess(
        *(given["cpp"], given["defines"], given["undefines"], given["includes"]),
        *(given["headers"], given["standard"] or ""),
    )
    return d_programs.Asked(
        programs=tuple(programs),
        arguments=() if mode is Mode.LINK else given["arguments"],
        options=tuple(_settings(given)),
        pid=given["pid"],
        command=split_command(given["command"], ()),
        libraries=given["libraries"],
        preprocess=preprocess,
        objects=given["arguments"] if mode is Mode.LINK else (),
        machine=given["machine"],
        follow=given["follow"],
        others=given["others"],
        runs=mode is Mode.RUN,
    )


def _mode(given: dict[str, Any]) -> Mode:
    found = [mode for name, mode in _MODES.items() if given[name]]
    if len(found) > 1:
        raise UsageError("two-modes", "only one of -G, -h and -l can be given at a time")
    if given["as_json"] and found and found[0] is not Mode.LIST:
        raise UsageError("two-modes", "-G and -h write files, of which there is no JSON")
    return found[0] if found else Mode.COMPILE if given["compile_only"] else Mode.RUN


def _refuse(given: dict[str, Any]) -> None:
    """Refuse the options of dtrace(1) that this command will never have. Raises UsageError `no-such-mode`."""
    for name, (letter, why) in _REFUSED.items():
        if given[name]:
            raise UsageError("no-such-mode", f"-{letter} has no meaning here: {why}")


def _settings(given: dict[str, Any]) -> list[tuple[str, str | None]]:
    flags = {"quiet": "quiet", "destructive": "destructive", "flow": "flowindent"}
    flags |= dict.fromkeys(("zero", "header", "link"), "zdefs")
    found: list[tuple[str, str | None]] = [(option, None) for flag, option in flags.items() if given[flag]]
    if given["bufsize"] is not None:
        found.append(("bufsize", given["bufsize"]))
    for text in given["options"]:
        name, separator, value = text.partition("=")
        found.append((name, value if separator else None))
    return found


def main() -> int:
    """Run the program ``gilk-dtrace``, which can be the interpreter of a script (#!)."""
    from gilk.cli.main import run

    return run(["dtrace", *sys.argv[1:]])
