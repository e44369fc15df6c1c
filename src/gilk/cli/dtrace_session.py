# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk dtrace`` at work: what it says on standard error, where output goes, how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gilk import api
from gilk.cli.dtrace_manner import Manner, Mode
from gilk.cli.running import Stop
from gilk.errors import GilkError
from gilk.render.d.listing import LISTING_HEADER, listing
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.verbose import tell_probe, tell_program

_MANY = 300  # clauses: the compiler is at work for seconds
#: What messages call the sizes that options say.
_SIZES = {
    "bufsize": "buffer size",
    "aggsize": "aggregation size",
    "dynvarsize": "dynamic variable size",
    "specsize": "speculation size",
}


class Outlet:
    """Standard output or the file of -o, until freopen() changes it."""

    def __init__(self, output: Path | None) -> None:
        self._first: IO[bytes] = sys.stdout.buffer if output is None else output.open("ab")
        self._to = self._first

    def write(self, data: bytes) -> None:
        self._to.write(data)
        self._to.flush()

    def say(self, text: str) -> None:
        self.write(text.encode("utf-8", "surrogateescape"))

    def complain(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def system(self, command: bytes) -> None:
        self._to.flush()
        import subprocess

        subprocess.run(command, shell=True, check=False, stdout=self._to)

    def freopen(self, name: bytes) -> None:
        """Empty: back to where output went at first."""
        self._to = self._first if not name else Path(os.fsdecode(name)).open("wb")  # noqa: SIM115 - until the next

    def ftruncate(self) -> None:
        if self._to is not sys.stdout.buffer:
            self._to.truncate(0)
            self._to.seek(0)


def carry_out(name: str, asked: api.DtraceRequest, manner: Manner) -> int:
    """The exit status: that of exit(), 0, or 1 when something was wrong with the program or with the process."""
    messages = Messages(name)
    try:
        if manner.mode in (Mode.RUN, Mode.COMPILE, Mode.LIST):
            api.check_output(manner.output, appends=True)
        with _prepared(asked) as consumer:
            if not _compile(consumer, messages):
                return 1
            match manner.mode:
                case Mode.RUN:
                    return _run(consumer, messages, manner)
                case Mode.COMPILE:
                    _tell(consumer, Outlet(manner.output), manner)
                case Mode.LIST:
                    _list(consumer, manner)
                case Mode.HEADER:
                    api.write_dtrace_header(consumer.compiled.program.interfaces, _scripts(asked), manner.output)
                case Mode.LINK:
                    api.write_dtrace_objects(_scripts(asked), asked.objects, manner.output)
            return 0
    except GilkError as error:
        sys.stderr.write(messages.error(error.message))
        return 1


def _scripts(asked: api.DtraceRequest) -> list[str]:
    """Their names; a program that is given on the command line has none."""
    return [given if letter == "s" else "" for letter, given in asked.programs]


@contextmanager
def _prepared(asked: api.DtraceRequest) -> Iterator[api.Consumer]:
    consumer = api.prepare_dtrace(asked)
    try:
        yield consumer
    finally:
        api.let_go_dtrace(consumer)


def _compile(consumer: api.Consumer, messages: Messages) -> bool:
    try:
        consumer.compile()
        return True
    except api.DoesNotCompile as error:
        wrong, tagged = error.wrong, consumer.options.flag("errtags")
        if wrong.text.kind != "description":
            sys.stderr.write(messages.rejected(wrong.file, wrong.line, wrong.diagnostic, tagged))
        else:
            sys.stderr.write(messages.bad_specifier(wrong.text.source.name, wrong.diagnostic, wrong.line, tagged))
    except api.NoSuchProbe as error:
        text = consumer.compiled.origins[error.clause - 1]
        tag = "[D_PDESC_ZERO] " if consumer.options.flag("errtags") else ""
        what = (
            f"failed to compile script {text.source.name}: "
            if text.kind == "script"
            else f"invalid probe specifier {text.source.name}: "
        )
        sys.stderr.write(messages.error(f"{what}{tag}{error}"))
    return False


def _list(consumer: api.Consumer, manner: Manner) -> None:
    enabled, outlet = consumer.enabled, Outlet(manner.output)
    outlet.say(LISTING_HEADER)
    for number in sorted(enabled.clauses or enabled.probes):
        probe = enabled.probes[number]
        outlet.say(listing(probe))
        if manner.verbose:
            outlet.say(tell_probe(consumer.compiled, probe))


def _tell(consumer: api.Consumer, outlet: Outlet, manner: Manner) -> None:
    """With -v, before anything is traced."""
    if manner.verbose:
        for text in consumer.texts:
            outlet.say(tell_program(consumer.compiled, text, manner.mode is Mode.COMPILE))


def _run(consumer: api.Consumer, messages: Messages, manner: Manner) -> int:
    options = consumer.options
    if consumer.compiled.program.destructive is not None and not options.flag("destructive"):
        sys.stderr.write(messages.error("could not enable tracing: Destructive actions not allowed"))
        return 1
    stop = Stop()
    stop.install()
    quiet, outlet = Messages(messages.program, options.flag("quiet")), Outlet(manner.output)
    _announce(consumer, quiet)
    _tell(consumer, outlet, manner)
    clauses = len(consumer.compiled.program.clauses)
    if clauses >= _MANY:
        sys.stderr.write(messages.error(f"compiling {clauses} clauses, which takes the C compiler some time"))
    for probe, reason in consumer.start():
        sys.stderr.write(messages.error(f"{probe}: cannot be enabled: {reason}"))
    for option, size in consumer.lowered.items():
        if not options.flag("quietresize"):
            sys.stderr.write(messages.lowered(_SIZES[option], size))
    if manner.emit:
        sys.stderr.write(consumer.tracing.text)
    tracing = consumer.tracing
    printer = Printer(
        outlet, options, messages, consumer.compiled.program.aggregations, tracing.aggregations,
        consumer.symbols, manner.testing,
    )  # fmt: skip
    printer.begin()
    consumer.run(stop, printer.show)
    restored = consumer.finish(printer.show)
    printer.end()
    for note in consumer.tracing.notes:
        sys.stderr.write(messages.error(note))
    consumer.tell_corruptions(printer.show)
    if restored is False:
        sys.stderr.write(messages.error("the code of the process is not, or could not be compared with, what it was"))
        return 1
    return consumer.exit_status


def _announce(consumer: api.Consumer, messages: Messages) -> None:
    """How many probes each program is about."""
    for text in consumer.texts:
        numbers = [n for n, origin in enumerate(consumer.compiled.origins, 1) if origin is text]
        matched = sum(consumer.enabled.counts[number] for number in numbers)
        sys.stderr.write(messages.matched(text.kind, text.said, matched))
    if consumer.options.flag("destructive"):
        sys.stderr.write(messages.destructive())
