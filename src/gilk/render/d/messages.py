# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages for standard error: notices, losses, faults of clauses, and errors in a program.

Each is one or more lines with their newlines, and begins with the name by which the command was called.
"""

from __future__ import annotations

from enum import IntEnum

from gilk.lang.d.probes import DProbe
from gilk.lang.syntax.source import Diagnostic
from gilk.lang.types import signed
from gilk.trace.d.events import DropKind
from gilk.values import dataclass


class Fault(IntEnum):
    """A fault, by its number in arg4 of dtrace:::ERROR."""

    UNKNOWN = 0
    BAD_ADDRESS = 1
    BAD_ALIGNMENT = 2
    ILLEGAL_OPERATION = 3
    DIVIDE_BY_ZERO = 4
    NO_SCRATCH = 5
    KERNEL_PRIVILEGE = 6
    USER_PRIVILEGE = 7
    TUPLE_OVERFLOW = 8
    BAD_STACK = 9
    BAD_SIZE = 10
    BAD_INDEX = 11
    LIBRARY = 1000


FAULTS = {
    Fault.BAD_ADDRESS: "invalid address",
    Fault.BAD_ALIGNMENT: "invalid alignment",
    Fault.ILLEGAL_OPERATION: "illegal operation",
    Fault.DIVIDE_BY_ZERO: "divide-by-zero",
    Fault.NO_SCRATCH: "out of scratch space",
    Fault.KERNEL_PRIVILEGE: "invalid kernel access",
    Fault.USER_PRIVILEGE: "invalid user access",
    Fault.TUPLE_OVERFLOW: "tuple stack overflow",
    Fault.BAD_STACK: "bad stack",
    Fault.BAD_SIZE: "invalid size",
    Fault.BAD_INDEX: "index out of bounds",
    Fault.LIBRARY: "library-level fault",
    Fault.UNKNOWN: "unknown fault",
}
_WITH_ADDRESS = {Fault.BAD_ADDRESS, Fault.BAD_ALIGNMENT, Fault.BAD_STACK, Fault.BAD_SIZE}
_NOWHERE = (1 << 64) - 1  # stands for an address that is not known


#: For each kind of loss DTrace's tag, the noun in the singular, and the text behind the plural's "s".
LOSSES = {
    DropKind.PRINCIPAL: ("DTRACEDROP_PRINCIPAL", "drop", " on CPU {cpu}"),
    DropKind.AGGREGATION: ("DTRACEDROP_AGGREGATION", "aggregation drop", " on CPU {cpu}"),
    DropKind.DYNAMIC: ("DTRACEDROP_DYNAMIC", "dynamic variable drop", ""),
    DropKind.SPECULATION: ("DTRACEDROP_SPEC", "speculative drop", ""),
    DropKind.SPECULATION_BUSY: (*("DTRACEDROP_SPECBUSY", "failed speculation", " (available buffer(s) still busy)"),),
    DropKind.SPECULATION_UNAVAILABLE: (
        *("DTRACEDROP_SPECUNAVAIL", "failed speculation", " (no speculative buffer available)"),
    ),
    DropKind.DBLERROR: ("DTRACEDROP_DBLERROR", "error", " in ERROR probe enabling"),
    DropKind.STACK: ("DTRACEDROP_STKSTROVERFLOW", "jstack()/ustack() string table overflow", ""),
    DropKind.NESTED: ("DTRACEDROP_NESTED", "nested firing", " dropped, as clauses ran there"),
    DropKind.SHALLOW: ("DTRACEDROP_SHALLOW", "firing", " dropped, as no stack was left"),
    DropKind.THROTTLED: ("DTRACEDROP_THROTTLED", "time", " the kernel held back samples on CPU {cpu}"),
}
_UNITS = " kmgtpe"


def kind_of(fault: int) -> Fault:
    """The fault with the number ``fault``: arg4 of dtrace:::ERROR, which a hostile process may have written."""
    return next((one for one in Fault if one == fault), Fault.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Messages:
    """Makes messages. ``program`` is the name by which the command was called. ``quiet`` silences messages that only
    inform.
    """

    program: str = "dtrace"
    quiet: bool = False

    def error(self, text: str) -> str:
        return f"{self.program}: {text}\n"

    def notice(self, text: str) -> str:
        return "" if self.quiet else self.error(text)

    def matched(self, kind: str, name: str, probes: int) -> str:
        """The number of probes that matched. ``kind`` is ``script`` or ``description``; the name of a description is
        the text before the first of ``{/;``.
        """
        return self.notice(f"{kind} '{name}' matched {probes} probe{'' if probes == 1 else 's'}")

    def destructive(self) -> str:
        return self.notice("allowing destructive actions")

    def drop(self, kind: DropKind, count: int, cpu: int = 0, tagged: bool = False) -> str:
        """A loss. ``tagged`` is the option droptags."""
        tag, what, after = LOSSES[kind]
        before = f"[{tag}] " if tagged else ""
        return self.error(f"{before}{count} {what}{'s' if count > 1 else ''}{after.format(cpu=cpu)}")

    def corrupt(self, what: str) -> str:
        return self.error(f"stream-corrupt: the process wrote into gilk's own memory: {what}")

    def fault(self, clause: str, probe: DProbe, fault: int, address: int = 0, pc: int | None = None) -> str:
        """A run-time error in a clause. ``pc`` is its place in the clause's code, if that is known."""
        kind = kind_of(fault)
        where = "" if pc is None else f" at BPF pc {pc}"
        text = f"error in {clause} for probe ID {probe.number} ({probe}): "
        return self.error(f"{text}{FAULTS[kind]}{_details(kind, address)}{where}")

    def library_fault(self, clause: str, probe: DProbe, what: str, apart: bool = False) -> str:
        """A fault of the consumer itself: in freopen(), setopt(). ``apart``: with an empty line behind it, which DTrace
        has for setopt()."""
        return self.error(f"error in {clause} for probe ID {probe.number} ({probe}): {what}") + "\n" * apart

    def rejected(self, script: str, line: int, diagnostic: Diagnostic, tagged: bool = False) -> str:
        """A script that does not compile. ``tagged`` is the option errtags."""
        return self.error(f"failed to compile script {script}: {_diagnosed(line, diagnostic, tagged)}")

    def bad_specifier(self, specifier: str, diagnostic: Diagnostic, line: int = 0, tagged: bool = False) -> str:
        """A program on the command line that does not compile. ``line`` is 0 if there is none, as for probes that do
        not exist.
        """
        return self.error(f"invalid probe specifier {specifier}: {_diagnosed(line, diagnostic, tagged)}")

    def lowered(self, what: str, size: int) -> str:
        """An option that was lowered. ``what`` is ``buffer size``, ``aggregation size`` and so on; ``size`` is in
        bytes.
        """
        unit = max((n for n in range(len(_UNITS)) if size >> 10 * n), default=0)
        exact = size % (1 << 10 * unit) == 0
        amount = f"{size >> 10 * unit}{_UNITS[unit]}" if exact else f"{size} bytes"
        return self.error(f"{what} lowered to {amount}")


def _details(fault: Fault, address: int) -> str:
    address &= _NOWHERE
    if fault is Fault.BAD_INDEX:
        return f" ({signed(address)})"
    unknown = fault is Fault.BAD_ADDRESS and address == _NOWHERE
    return f" (0x{address:x})" if fault in _WITH_ADDRESS and not unknown else ""


def _diagnosed(line: int, diagnostic: Diagnostic, tagged: bool) -> str:
    tag = f"[{diagnostic.tag}] " if tagged else ""
    return f"{tag}{f'line {line}: ' if line else ''}{diagnostic.message}"
