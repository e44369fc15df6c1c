# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prints events as dtrace(1) does: text for the output, and for standard error."""

from __future__ import annotations

from dataclasses import field

from gilk.render.d import aggregations, records, trace
from gilk.render.d.listing import listing
from gilk.render.d.messages import Messages
from gilk.render.d.style import Style
from gilk.render.d.text import text_of
from gilk.trace.d import events
from gilk.trace.d.values import encoded
from gilk.values import dataclass

#: The names that messages use for the sizes that options set.
_SIZES = {
    "bufsize": "buffer size",
    "aggsize": "aggregation size",
    "dynvarsize": "dynamic variable size",
    "specsize": "speculation size",
}
_NOT_RESTORED = "the code of the process is not, or could not be compared with, what it was: see gilk restore"


@dataclass
class Printer:
    """Prints the events of one session: it knows the style after changes of options, and the depth of each processor in
    the flow of calls.
    """

    messages: Messages
    style: Style
    _record: Style = field(init=False)  # the style at the beginning of the present record
    _flows: dict[int, records.FlowIndent] = field(default_factory=dict)

    def output(self, event: events.Event) -> bytes:
        """The bytes to print for an event. Every event must be given once, in order."""
        match event:
            case events.Printed():
                return self._printed(event)
            case events.ProbeFired():
                self._record = self.style
                return self._prefix(event)
            case events.RecordEnded():
                return records.end(self._record)
            case events.Snapshot():
                return aggregations.table(event, self.style.indent)
            case events.OptionSet(name=name, value=value):
                self.style = self.style.changed(name, value)
            case events.Listed(probe=probe):
                return encoded(listing(probe))
            case events.Began():
                return records.header(self.style)
            case events.Ended():
                return b"\n"
        return b""

    def complaint(self, event: events.Event) -> str:
        """The text for standard error about an event; '' for most."""
        messages = self.messages
        match event:
            case events.Matched(kind=kind, name=name, probes=probes) if not self.style.quiet:
                return messages.matched(kind, name, probes)
            case events.Refused(probe=probe, reason=reason):
                return messages.error(f"{probe}: cannot be enabled: {reason}")
            case events.Lowered(option=option, size=size) if not self.style.quietresize:
                return messages.lowered(_SIZES[option], size)
            case events.Dropped(kind=lost, cpu=cpu, count=count):
                return messages.drop(lost, count, cpu, self.style.droptags)
            case events.Faulted(probe=probe, clause=clause, kind=fault, address=address):
                return messages.fault(f"dt_clause_{clause - 1}", probe, fault, address)
            case events.ActionFailed(probe=probe, clause=clause, action=action, why=why):
                return messages.library_fault(f"dt_clause_{clause - 1}", probe, why, apart=action == "setopt")
            case events.Corrupted(what=what):
                return messages.corrupt(what)
            case events.Noted(text=text):
                return messages.error(text)
            case events.Exited(restored=False):
                return messages.error(_NOT_RESTORED)
        return ""

    def _prefix(self, fired: events.ProbeFired) -> bytes:
        if not self.style.flow:
            return records.prefix(self.style, fired.cpu, fired.probe)
        flow = self._flows.get(fired.cpu, records.FlowIndent())
        text, self._flows[fired.cpu] = records.flow_prefix(self.style, fired.cpu, fired.probe, fired.clause, flow)
        return text

    def _printed(self, printed: events.Printed) -> bytes:
        text = text_of(printed, self.style.printsize, self.style.strsize)
        if text is not None:
            return text
        return b"".join(trace.trace(value, self.style.quiet, self.style.indent) for value in printed.values)
