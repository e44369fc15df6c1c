# SPDX-License-Identifier: LGPL-2.1-or-later
"""Carrying out of the actions that clauses record, one by one in their turn; the results are events."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from gilk.engines.dtrace.aggregated import Aggregated
from gilk.engines.dtrace.names import Names
from gilk.engines.dtrace.outlet import Outlet, Shell, shell_here
from gilk.engines.dtrace.tracing import Firing, Happening
from gilk.lang.d import tree
from gilk.lang.d.options import BadOption, Options
from gilk.lang.data import PACKET_HEAD
from gilk.trace.d import events
from gilk.trace.d.values import Bytes, Memory, Packet, Value, decode
from gilk.values import dataclass

#: Formats a value with a format string as text.
Formatted = Callable[[events.Printed], bytes]


@dataclass
class Acting:
    """Carries out actions. ``options``: setopt() changes them. ``formatted``: makes commands and names of files of
    printf-like actions. ``shell``: runs the commands of system()."""

    options: Options
    names: Names
    aggregated: Aggregated
    outlet: Outlet
    formatted: Formatted
    shell: Shell = shell_here

    def act(self, happening: Happening) -> Iterator[events.Event]:
        """Carry out the actions of a record, or pass on another happening; yields events.

        An action is carried out only when the events before it have been taken.
        """
        if not isinstance(happening, Firing):
            yield happening
            return
        yield events.ProbeFired(
            happening.probe, happening.cpu, happening.part.clause, happening.time, happening.pid, happening.tid
        )
        for action in happening.part.actions:
            done = _ACTIONS[action.action](self, happening, action)
            if done is not None:
                yield done
        yield events.RecordEnded()

    # Output.

    def _nothing(self, firing: Firing, action: tree.Data) -> events.Event | None:
        """Do nothing: the record itself is all there is."""
        return None

    def _printf(self, firing: Firing, action: tree.Data) -> events.Printed:
        format_, values = action.text or "", self._values(firing, action)
        return events.Printed(action.action, values, format_, self.names.wanted(format_, values))

    def _trace(self, firing: Firing, action: tree.Data) -> events.Event:
        return events.Printed(action.action, tuple(self.aggregated.plain(datum, firing.data) for datum in action.data))

    def _tracemem(self, firing: Firing, action: tree.Data) -> events.Event:
        datum = action.data[0]
        size = _number(firing, action, 1) if len(action.data) > 1 else datum.size
        size = size if 0 <= size <= datum.size else datum.size  # a negative size is a large one
        return events.Printed(action.action, (Bytes(firing.data[datum.offset : datum.offset + size]),))

    def _pcap(self, firing: Firing, action: tree.Data) -> events.Event | None:
        """Print the packet, or put it into the file that freopen() has named. At address 0 there was none."""
        time, link, whole = (firing.data[each.offset : each.offset + each.size] for each in action.data)
        taken, length = struct.unpack_from("<II", whole)
        kind = int.from_bytes(link, "little", signed=True)
        packet = Packet(int.from_bytes(time, "little"), kind, length, whole[PACKET_HEAD : PACKET_HEAD + taken])
        try:
            kept = not length or self.outlet.capture(packet)
        except (OSError, ValueError) as error:
            return _failed(firing, "pcap", f"couldn't capture a packet: {error}")
        return None if kept else events.Printed(action.action, (packet,))

    def _print(self, firing: Firing, action: tree.Data) -> events.Event:
        address, whole = action.data
        start = int.from_bytes(firing.data[address.offset : address.offset + 8], "little")
        assert action.shown is not None
        data = firing.data[whole.offset : whole.offset + whole.size]
        return events.Printed(action.action, (Memory(start, action.shown, data),))

    def _values(self, firing: Firing, action: tree.Data) -> tuple[Value, ...]:
        return tuple(decode(datum, firing.data, self.names.resolve) for datum in action.data)

    # Aggregations.

    def _printa(self, firing: Firing, action: tree.Data) -> events.Event:
        return self.aggregated.print(action.aggregations, action.text)

    def _clear(self, firing: Firing, action: tree.Data) -> events.Event:
        self.aggregated.clear(action.aggregations[0])
        return events.Cleared(action.aggregations[0])

    def _trunc(self, firing: Firing, action: tree.Data) -> events.Event:
        keep = _number(firing, action) if action.data else 0
        self.aggregated.trunc(action.aggregations[0], keep)
        return events.Truncated(action.aggregations[0], keep)

    def _normalize(self, firing: Firing, action: tree.Data) -> events.Event:
        by = _number(firing, action) or 1
        self.aggregated.normalize(action.aggregations[0], by)
        return events.Normalized(action.aggregations[0], by)

    def _denormalize(self, firing: Firing, action: tree.Data) -> events.Event:
        self.aggregated.normalize(action.aggregations[0], 1)
        return events.Normalized(action.aggregations[0])

    # The system.

    def _system(self, firing: Firing, action: tree.Data) -> events.Event:
        command = self.formatted(self._printf(firing, action))
        if b"\0" in command:
            return _failed(firing, "system", "couldn't run a command with a NUL in it")
        return events.CommandRan(command, self.outlet.system(command, self.shell))

    def _freopen(self, firing: Firing, action: tree.Data) -> events.Event:
        name = self.formatted(self._printf(firing, action))
        try:
            self.outlet.freopen(name)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return _failed(firing, "freopen", f'couldn\'t freopen() "{name.decode(errors="replace")}": {why}')
        return events.Redirected(name)

    def _ftruncate(self, firing: Firing, action: tree.Data) -> events.Event:
        self.outlet.ftruncate()
        return events.Emptied()

    def _setopt(self, firing: Firing, action: tree.Data) -> events.Event:
        name, _, value = (action.text or "").partition("=")
        value = value or "1"
        try:
            self.options.set(name, value, active=True)
        except BadOption as bad:
            return _failed(firing, "setopt", f'couldn\'t set option "{name}" to "{value}": {bad}')
        return events.OptionSet(name, self.options.values[name])


def _number(firing: Firing, action: tree.Data, which: int = 0) -> int:
    datum = action.data[which]
    return int.from_bytes(firing.data[datum.offset : datum.offset + datum.size], "little", signed=True)


def _failed(firing: Firing, action: str, why: str) -> events.ActionFailed:
    return events.ActionFailed(firing.probe, firing.part.clause, action, why)


_VALUES = ("usym", "ufunc", "umod", "uaddr", "sym", "func", "mod", "ustack", "jstack", "stack")
Action = Callable[[Acting, Firing, tree.Data], events.Event | None]
_ACTIONS: dict[str, Action] = {
    "default": Acting._nothing,
    "exit": Acting._nothing,
    "printf": Acting._printf,
    "trace": Acting._trace,
    "tracemem": Acting._tracemem,
    "pcap": Acting._pcap,
    "print": Acting._print,
    "printa": Acting._printa,
    "clear": Acting._clear,
    "trunc": Acting._trunc,
    "normalize": Acting._normalize,
    "denormalize": Acting._denormalize,
    "system": Acting._system,
    "freopen": Acting._freopen,
    "ftruncate": Acting._ftruncate,
    "setopt": Acting._setopt,
    **dict.fromkeys(_VALUES, Acting._trace),
}
