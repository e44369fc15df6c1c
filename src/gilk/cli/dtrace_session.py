# SPDX-License-Identifier: LGPL-2.1-or-later
"""The work of ``gilk dtrace`` in each mode, from the request to the exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gilk.api import dtrace as d_programs
from gilk.cli.dtrace_manner import Manner, Mode
from gilk.cli.dtrace_output import JsonOutput, Output, TableOutput, TextOutput
from gilk.cli.progress import SOON, in_lines, working
from gilk.cli.running import Stop
from gilk.errors import GilkError
from gilk.render.d.listing import LISTING_HEADER
from gilk.render.d.messages import Messages
from gilk.render.d.verbose import tell_probe, tell_program

_MANY = 300  # clauses, from which on the compiler takes seconds
_NO_PROCESS = "No such process"  # DTrace's words; -p has just given the number


def carry_out(name: str, asked: d_programs.Asked, manner: Manner) -> int:
    """Carry out the request and return the exit status: that of exit(), 0, or 1 if the program or the process had an
    error."""
    messages = Messages(name)
    output = _output(manner, messages)
    try:
        if manner.mode in (Mode.RUN, Mode.COMPILE, Mode.LIST):
            d_programs.check_output(manner.output, appends=not manner.as_table)
        with _prepared(asked) as consumer:
            with working("compiling", not manner.as_json):
                compiled = _compile(consumer, messages, output, manner.mode is Mode.LIST)
            if not compiled:
                return 1
            match manner.mode:
                case Mode.RUN:
                    return _run(consumer, messages, manner, output)
                case Mode.COMPILE:
                    _tell(consumer, manner, output)
                case Mode.LIST:
                    _list(consumer, messages, manner, output)
                case Mode.HEADER:
                    d_programs.write_header(consumer.compiled.program.interfaces, _scripts(asked), manner.output)
                case Mode.LINK:
                    interfaces = consumer.compiled.program.interfaces
                    d_programs.write_objects(_scripts(asked), asked.objects, manner.output, interfaces)
            return 0
    except GilkError as error:
        words = _NO_PROCESS if _is_of_pid(error, asked) else error.message
        output.fail(messages.error(words), slug=error.slug, message=error.message, hint=error.hint)
        return 1


def _is_of_pid(error: GilkError, asked: d_programs.Asked) -> bool:
    """Whether there is no process of the only number that -p gives on this machine."""
    return error.slug == "no-such-process" and asked.pid is not None and not asked.others and not asked.machine


def _output(manner: Manner, messages: Messages) -> Output:
    if manner.as_json:
        return JsonOutput(manner)
    return TableOutput(manner, messages) if manner.as_table else TextOutput(manner, messages)


def _scripts(asked: d_programs.Asked) -> list[str]:
    """The file names of the programs; "" for a program that is given on the command line."""
    return [given if letter == "s" else "" for letter, given in asked.programs]


@contextmanager
def _prepared(asked: d_programs.Asked) -> Iterator[d_programs.Consumer]:
    consumer = d_programs.prepare(asked)
    try:
        yield consumer
    finally:
        d_programs.let_go(consumer)


def _compile(consumer: d_programs.Consumer, messages: Messages, output: Output, listing: bool) -> bool:
    tagged = consumer.options.flag("errtags")
    try:
        consumer.compile(listing)
        return True
    except d_programs.DoesNotCompile as error:
        wrong = error.wrong
        said = _refusal(wrong, consumer.texts[0], messages, tagged)
        tag, what = str(wrong.diagnostic.tag), wrong.diagnostic.message
        output.fail(said, tag=tag, message=what, file=wrong.file, line=wrong.line)
    except d_programs.NoSuchProbe as error:
        text = consumer.compiled.origins[error.clause - 1]
        tag = f"[{error.tag}] " if tagged else ""
        line = error.line if text.kind == "script" else 0
        what = (
            f"failed to compile script {text.source.name}: "
            if text.kind == "script"
            else f"invalid probe specifier {text.source.name}: "
        )
        where = f"line {line}: " if line else ""
        said = messages.error(f"{what}{tag}{where}{error}")
        output.fail(said, tag=error.tag, message=str(error), file=text.source.name, line=line)
    return False


def _refusal(wrong: d_programs.Wrong, first: d_programs.ProgramText, messages: Messages, tagged: bool) -> str:
    """The message for a program that does not compile. A library is compiled for the ``first`` program, as in
    DTrace."""
    text, file, line, diagnostic = wrong.text, wrong.file, wrong.line, wrong.diagnostic
    if text.is_library and line:
        diagnostic = replace(diagnostic, message=f'"{file}", line {line}: {diagnostic.message}')
        text, file, line = first, first.source.name, 0
    if text.kind == "description":
        return messages.bad_specifier(text.source.name, diagnostic, line, tagged)
    return messages.rejected(file, line, diagnostic, tagged)


def _list(consumer: d_programs.Consumer, messages: Messages, manner: Manner, output: Output) -> None:
    enabled = consumer.enabled
    numbers = enabled.clauses if consumer.compiled.program.clauses else enabled.probes
    probes = [enabled.probes[number] for number in sorted(numbers)]
    output.begin(consumer)
    if not manner.as_json:
        output.say(LISTING_HEADER)
    found = consumer.probe_stabilities(probes) if manner.verbose else ((probe, None) for probe in probes)
    for probe, more in found:
        output.take(d_programs.events.Listed(probe, more))
        if more is not None and not manner.as_json:
            output.say(tell_probe(more))
    for description in enabled.unmatched:
        output.remark(messages.error(f"failed to match {description}: No probe matches description"))


def _tell(consumer: d_programs.Consumer, manner: Manner, output: Output) -> None:
    """Describe the programs with -v, before anything is traced."""
    if manner.verbose:
        for text in consumer.texts:
            found = consumer.program_stability(text)
            output.say(tell_program(text.kind, text.said, found, manner.mode is Mode.COMPILE))


def _refused(consumer: d_programs.Consumer) -> str:
    """The reason why a valid program is not traced; "" if it may be."""
    if consumer.compiled.program.destructive is not None and not consumer.options.flag("destructive"):
        return "Destructive actions not allowed"
    return "" if consumer.has_room else "Enabling exceeds size of buffer"


def _run(consumer: d_programs.Consumer, messages: Messages, manner: Manner, output: Output) -> int:
    options = consumer.options
    refused = _refused(consumer)
    stop = Stop()
    stop.install()
    outlet = output.begin(consumer)
    for matched in consumer.matched:
        output.take(matched)
    if refused:
        what = f"could not enable tracing: {refused}"
        output.fail(messages.error(what), message=what)
        return 1
    if not consumer.compiled.program.clauses:  # no clause could ever end the run
        output.fail(messages.error("no probes matched"), message="no probes matched")
        return 1
    if options.flag("destructive") and not options.flag("quiet"):
        output.remark(messages.destructive())
    _tell(consumer, manner, output)
    clauses = len(consumer.compiled.program.clauses)
    if clauses >= _MANY:
        output.remark(messages.error(f"compiling {clauses} clauses, which takes the C compiler some time"))
    with working("planning", not manner.as_json), stop.at_once():
        lacking = list(consumer.start())
    output.lack(lacking)
    if manner.emit:
        sys.stderr.write(consumer.tracing.text)
    consumer.leaving = lambda: in_lines("taking all out", not manner.as_json, first=SOON)
    status = 0
    for event in d_programs.dtrace_events(consumer, stop, outlet):
        output.take(event)
        if isinstance(event, d_programs.events.Exited):
            status = event.status
    return status if output.end() else status or 1
