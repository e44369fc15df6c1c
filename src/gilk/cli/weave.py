# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk weave FILE``: aspects in running processes, until Ctrl-C or for a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gilk.api import ahead
from gilk.cli.progress import working
from gilk.cli.running import Stop, command_option, lasting_option, split_command, status_of, when_idle_option
from gilk.cli.weave_told import WeavingTold
from gilk.errors import UsageError
from gilk.values import dataclass

if TYPE_CHECKING:
    from gilk.api.aspects import AnswersOfWeaving, Elsewhere, MemberChoice, Weaving, WovenReport

_HELP = """Weave the aspects of FILE into processes, and print what their advice reports.

\b
All goes in, or nothing: what cannot be woven is refused by name before anything has changed. Ctrl-C, the end of the
time, or the end of the processes takes everything out. docs/aspect/language.md is about the language.
"""


@click.command(help=_HELP)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-p", "--pid", "pids", multiple=True, type=int, help="A running process, of all groups; repeatable.")
@click.option(
    "-g", "--group", "groups", multiple=True, metavar="GROUP=MEMBERS",
    help="Members of a group of the file: A=PID,PID, A=name:GLOB (those there are), A=all:GLOB (later ones too), "
    "A=children:PID; repeatable.",
)  # fmt: skip
@click.option(
    "--at-least", type=click.IntRange(1), metavar="K",
    help="Go on if so many processes can be woven; those that refuse are named. Without it, one that refuses is enough "
    "for none to be woven.",
)  # fmt: skip
@command_option("; it is a member of all groups")
@lasting_option
@when_idle_option
@click.option(
    "--on", "machine", default="", metavar="MACHINE",
    help="Whose kernel the elements placed in K are about, and where COMMAND runs: lab (a fresh virtual machine) or "
    "ssh:HOST. A file with elements in processes, too, is woven by gilk in the lab.",
)  # fmt: skip
@click.option(
    "--allow-kernel-replace", is_flag=True,
    help="Let advice stand in place of functions of the kernel, which then do not do what the kernel expects of them.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be woven, and what stands against it. Touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print an object for each report, and one at the end.")
@click.option(
    "-d", "--detach", is_flag=True,
    help="Go on in the background once everything is in, and print the number for `gilk aspect show` and remove.",
)  # fmt: skip
@click.option(
    "--persist", is_flag=True,
    help="Leave everything in when gilk is killed, and its keeper with it; `gilk aspect remove` takes it out then.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="Write what --json prints to FILE, a line each, as it comes.",
)  # fmt: skip
@click.option(
    "-D", "defines", multiple=True, metavar="NAME[=VALUE]", help="Define a macro for the C of the file; repeatable."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no counts; reports alone.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def weave(
    file: Path, pids: tuple[int, ...], groups: tuple[str, ...], at_least: int | None, line: str | None,
    lasting: int | None, when_idle: int | None, machine: str, allow_kernel_replace: bool, dry_run: bool,
    as_json: bool, detach: bool, persist: bool, output: Path | None, defines: tuple[str, ...], quiet: bool,
    command: tuple[str, ...],
) -> int:  # fmt: skip
    words = split_command(line, command)
    ahead.expect(process=bool(words or pids or groups) and not (machine or dry_run or detach), runs=False)
    from gilk.api import aspects  # here: --help need not wait for it

    chosen = aspects.choices(groups, pids)
    if not chosen and not words and not machine:
        raise UsageError("no-target", "there is nothing to weave into", "give -p PID, -g GROUP=PID, or -c 'COMMAND'")
    if detach and (words or dry_run or machine):
        raise UsageError("usage", "-d is for processes that run already", "leave out -c, --on and --dry-run")
    if persist and machine:
        raise UsageError("usage", "--persist is for processes: the kernel's part goes with gilk", "leave one out")
    seconds, idle = (None if one is None else one / 1e9 for one in (lasting, when_idle))
    asked = _Asked(file, chosen, at_least, tuple(words), seconds, defines, persist, machine, idle,
                   allow_kernel_replace)  # fmt: skip
    if machine == "lab" and words and not chosen and aspects.is_of_both(aspects.read_aspects(file, defines)):
        return _in_lab(asked, {"--dry-run": dry_run, "--json": as_json, "--quiet": quiet,
                               "--allow-kernel-replace": allow_kernel_replace}, output)  # fmt: skip
    if dry_run:
        return _dry(asked, as_json)
    if detach:
        return _detached(lambda begun: _weave(asked, WeavingTold(as_json, quiet, False, output), begun))
    return _weave(asked, WeavingTold(as_json, quiet, bool(words), output), lambda: None)


@dataclass(frozen=True)
class _Asked:
    """The request of the command line. ``seconds`` is how long to weave, None until somebody ends it. ``idle`` is
    how many seconds to wait at the end until no advised call is under way; None: do not wait."""

    file: Path
    chosen: Sequence[MemberChoice]
    at_least: int | None
    words: tuple[str, ...]
    seconds: float | None
    defines: tuple[str, ...] = ()
    persist: bool = False
    machine: str = ""
    idle: float | None = None
    replaces: bool = False


def _weave(asked: _Asked, told: WeavingTold, begun: Callable[[], None]) -> int:
    """Weave, and return the exit status. ``begun`` is called once everything is woven in."""
    from gilk.api import aspects

    words = asked.words
    stop = Stop(shared=bool(words) and not asked.machine)  # a command on another machine does not have this terminal
    holding = aspects.held(
        asked.file, asked.chosen, words, asked.at_least, asked.defines, asked.persist, asked.machine, asked.replaces
    )
    with told, holding as (weaving, members, elsewhere):
        if asked.idle is not None:
            weaving.check_idle()
        stop.install()
        launched = weaving.processes[-1].process if words and elsewhere is None else None
        with working("analysing and planning", told.shows_progress), stop.at_once():
            weaving.weave()
        with aspects.tended(weaving, members, told.refused) as tend, aspects.answering(weaving, asked.file) as answers:
            told.begun(weaving)  # from here on `gilk aspect` finds this weaving
            begun()
            if elsewhere is not None and words:
                elsewhere.start(words)
            _carry_out(weaving, asked, stop, told, tend, answers, elsewhere)
        if elsewhere is not None:
            return elsewhere.status or 0
        return status_of(launched.wait, stop) if launched is not None else 0


def _in_lab(asked: _Asked, flags: dict[str, bool], output: Path | None) -> int:
    """Run gilk itself in the lab, and return its exit status. The lab sees this machine's files, but changes of
    files there do not come back."""
    from gilk.api import aspects

    if asked.idle is not None:
        raise UsageError("usage", "--when-idle is for processes, and FILE has elements in the kernel", "leave it out")
    if output is not None:
        raise UsageError("usage", "files that are written in the lab go with it", "use --json, and > FILE")
    lasting = [] if asked.seconds is None else ["--for", f"{asked.seconds:.9f}s"]
    defines = [word for one in asked.defines for word in ("-D", one)]
    chosen = [flag for flag, given in flags.items() if given]
    return aspects.weave_in_lab([str(asked.file.absolute()), *chosen, *lasting, *defines, "--", *asked.words])


def _detached(work: Callable[[Callable[[], None]], int]) -> int:
    """Run ``work`` in a child, which goes on in the background. The parent returns once everything is woven in, and
    prints the child's process number."""
    from gilk.api import aspects

    both = aspects.detached()
    if not both.child:
        return work(both.begun)
    status = both.wait()
    if not status:
        click.echo(both.child)
    return status


def _dry(asked: _Asked, as_json: bool) -> int:
    from gilk.api import aspects
    from gilk.render import woven

    holding = aspects.held(
        asked.file,
        asked.chosen,
        asked.words,
        asked.at_least,
        asked.defines,
        machine=asked.machine,
        replaces=asked.replaces,
    )
    with holding as (weaving, _, _), working("compiling", not as_json):
        found = weaving.dry()
    click.echo(woven.dry_json(found) if as_json else woven.dry_text(found), nl=as_json)
    return 1 if any(one.refused for one in found) else 0


def _carry_out(
    weaving: Weaving, asked: _Asked, stop: Stop, told: WeavingTold, tend: Callable[[], bool],
    answers: AnswersOfWeaving, elsewhere: Elsewhere | None,
) -> None:  # fmt: skip
    def over() -> bool:
        return stop() or answers.removed or (elsewhere is not None and elsewhere.status is not None)

    def tell(report: WovenReport) -> None:
        answers.note(report)
        told.report(report)

    def look() -> bool:
        answers.serve()
        return tend()

    for one in weaving.processes:
        one.process.release()
    weaving.wait(asked.seconds, over, tell, look)
    if asked.idle is not None:
        told.under_way(weaving.idle(asked.idle, lambda: stop.count > 1))
    weaving.unweave()
    for report in weaving.reports(final=True):
        tell(report)
    told.end(weaving)
