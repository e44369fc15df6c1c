# SPDX-License-Identifier: LGPL-2.1-or-later
"""The outputs of ``gilk dtrace``: text as dtrace(1) prints it, JSON (--json), or rows of a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from gilk.api import dtrace as d_programs
from gilk.cli.dtrace_manner import Manner
from gilk.errors import StoreError
from gilk.render.d.messages import Messages
from gilk.render.d.printer import Printer
from gilk.render.d.refused import told_lacking
from gilk.render.d.style import Style
from gilk.version import VERSION

if TYPE_CHECKING:
    from gilk.render.d.as_json import Encoder
    from gilk.render.d.event_file import EventFile


class Output(Protocol):
    def begin(self, consumer: d_programs.Consumer) -> d_programs.Outlet:
        """Open the output, and return the outlet that carries out the actions that need the system."""
        ...

    def take(self, event: d_programs.events.Event) -> None: ...

    def lack(self, events: Sequence[d_programs.events.Event]) -> None:
        """Take the events about what the program does without, all at once."""
        ...

    def say(self, text: str) -> None:
        """Write a text about programs and probes, which -v asks for."""
        ...

    def remark(self, text: str) -> None:
        """Write a remark for the user at the terminal."""
        ...

    def fail(self, text: str, **error: Any) -> None:
        """Report an error. ``text`` is the message as a line; ``error`` has the fields of its JSON form."""
        ...

    def end(self) -> bool:
        """Close the output. Whether everything was written."""
        ...


class TextOutput:
    def __init__(self, manner: Manner, messages: Messages) -> None:
        self._manner, self._messages = manner, messages

    def begin(self, consumer: d_programs.Consumer) -> d_programs.Outlet:
        self._printer = Printer(self._messages, Style.of(consumer.options, self._manner.testing))
        return self._pages

    def take(self, event: d_programs.events.Event) -> None:
        if complaint := self._printer.complaint(event):
            self.remark(complaint)
        if data := self._printer.output(event):
            self._pages.write(data)

    def lack(self, events: Sequence[d_programs.events.Event]) -> None:
        self.remark(told_lacking(self._printer, events))

    def say(self, text: str) -> None:
        self._pages.write(text.encode("utf-8", "surrogateescape"))

    def remark(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def fail(self, text: str, **error: Any) -> None:
        self.remark(text)

    def end(self) -> bool:
        return True

    @cached_property
    def _pages(self) -> d_programs.Pages:
        return d_programs.Pages(self._manner.output)


class JsonOutput:
    """An output that writes a line of JSON for each event, at once."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner

    def begin(self, consumer: d_programs.Consumer) -> d_programs.Outlet:
        from gilk.render.d.as_json import Encoder

        options = consumer.options
        self._encoder: Encoder = Encoder(options.number("printsize"), options.string_bytes)
        return d_programs.Aside()

    def take(self, event: d_programs.events.Event) -> None:
        if (made := self._encoder.object(event)) is not None:
            self._line(made)

    def lack(self, events: Sequence[d_programs.events.Event]) -> None:
        for event in events:
            self.take(event)

    def say(self, text: str) -> None:
        sys.stderr.write(text)

    def remark(self, text: str) -> None:
        """Drop the remark: the reader of JSON is a program, which needs only the events."""

    def fail(self, text: str, **error: Any) -> None:
        """Write the error as a JSON line; if the lines go to a file, also write ``text`` to standard error."""
        from gilk.render.d import as_json

        self._line(as_json.error(**error))
        if self._manner.output is not None:
            sys.stderr.write(text)

    def end(self) -> bool:
        return True

    def _line(self, made: dict[str, Any]) -> None:
        import json

        self._pages.write(json.dumps(made).encode() + b"\n")

    @cached_property
    def _pages(self) -> d_programs.Pages:
        import json

        from gilk.render.d import as_json

        pages = d_programs.Pages(self._manner.output)
        pages.write(json.dumps(as_json.first(VERSION)).encode() + b"\n")
        return pages


class TableOutput(TextOutput):
    """An output that writes rows of a Parquet file (-o FILE.parquet). Errors go to standard error, as in text
    output."""

    def begin(self, consumer: d_programs.Consumer) -> d_programs.Outlet:
        from gilk.render.d.event_file import EventFile

        options = consumer.options
        self._printer = Printer(self._messages, Style.of(options, self._manner.testing))
        assert self._manner.output is not None
        sizes = options.number("printsize"), options.string_bytes
        self._file: EventFile = EventFile(self._manner.output, VERSION, *sizes)
        return d_programs.Aside()

    def take(self, event: d_programs.events.Event) -> None:
        if isinstance(event, d_programs.events.OptionSet):
            self._printer.output(event)  # complaints depend on options; no other event is made text of
        if complaint := self._printer.complaint(event):
            self.remark(complaint)
        self._add(event)

    def lack(self, events: Sequence[d_programs.events.Event]) -> None:
        super().lack(events)
        for event in events:
            self._add(event)

    def _add(self, event: d_programs.events.Event) -> None:
        try:
            self._file.add(event)
        except StoreError as error:
            self.remark(self._messages.error(f"{error.message}; {error.hint}"))

    def say(self, text: str) -> None:
        sys.stderr.write(text)

    def end(self) -> bool:
        made = self._file.close()
        if made == self._manner.output:
            return True
        lost = f", and {self._file.unwritten} rows are lost" if self._file.unwritten else ""
        self.remark(self._messages.error(f"{self._manner.output} was not made: {made} has what there is of it{lost}"))
        return False
