# SPDX-License-Identifier: LGPL-2.1-or-later
"""Probes that a program calls as functions, as headers by DTrace and the macros of its <sys/sdt.h> have it.

The function of a probe is ``__dtrace_PROVIDER___PROBE``; -G replaces a call of it by a nop with a note. The function
``__dtraceenabled_PROVIDER___PROBE`` stores through its argument how many listen to the probe, and is defined here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gilk.lang.d.header import FETCHED, passed
from gilk.lang.types import Type

_CALLED = re.compile(r"__dtrace(enabled)?_(\w+?)___(\w+)\Z", re.ASCII)
#: Registers of integer arguments (System V ABI x86-64, 3.2.3), each by its names for 1, 2, 4 and 8 bytes.
_REGISTERS = (
    ("dil", "di", "edi", "rdi"), ("sil", "si", "esi", "rsi"), ("dl", "dx", "edx", "rdx"),
    ("cl", "cx", "ecx", "rcx"), ("r8b", "r8w", "r8d", "r8"), ("r9b", "r9w", "r9d", "r9"),
)  # fmt: skip
_VECTORS = 8  # how many arguments are in registers of floating-point numbers
#: The symbol that a note names beside its probe; tools look for the section of that name (systemtap's wiki).
BASE = "_.stapsdt.base"

_BEGIN = """\
	.section .note.GNU-stack, "", "progbits"
	.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base:
	.space 1
	.size _.stapsdt.base, 1
"""

#: Several objects of -G may be linked, so all symbols are weak.
_PROBE = """\
	.section .probes, "aw", "progbits"
	.balign 2
	.weak {counter}
	.hidden {counter}
	.type {counter}, @object
	.size {counter}, 2
{counter}:
	.zero 2
	.text
	.weak {function}
	.hidden {function}
	.type {function}, @function
{function}:
	movzwl {counter}(%rip), %eax
	movl %eax, (%rdi)
	ret
	.size {function}, . - {function}
"""


class Called(NamedTuple):
    """A function that stands for a probe: the names of provider and probe as in C, and whether it tells if anybody
    listens."""

    provider: str
    probe: str
    enabled: bool

    @property
    def counter(self) -> str:
        """The variable that counts who listens to the probe, the same as in a header of gilk's."""
        return f"{self.provider}_{self.probe}_semaphore"


def called(function: str) -> Called | None:
    """The probe that a function stands for; None if it stands for none."""
    found = _CALLED.match(function)
    return Called(found[2], found[3], bool(found[1])) if found else None


def arguments(probe: Called, types: Sequence[Type], pushed: int) -> str:
    """The arguments of a note, at a call of the probe's function. ``pushed``: how many bytes are on the stack before
    the first argument there. Raises UsageError `not-for-a-header`."""
    return " ".join(_operands(probe, types[:FETCHED], pushed))


def _operands(probe: Called, types: Sequence[Type], pushed: int) -> Iterator[str]:
    integers, vectors, stacked = iter(_REGISTERS), iter(range(_VECTORS)), pushed
    for type_ in types:
        size = passed(probe.provider, probe.probe, type_)[1]
        floating = size.endswith("f")
        register = next(vectors, None) if floating else next(integers, None)
        if register is None:
            yield f"{size}@{stacked}(%rsp)"
            stacked += 8
        elif isinstance(register, int):
            yield f"{size}@%xmm{register}"
        else:
            yield f"{size}@%{register[int(size.lstrip('-')).bit_length() - 1]}"


def definitions(probes: Iterable[Called]) -> str:
    """Assembler text of the object file that defines what calls of these probes leave undefined."""
    distinct = sorted({probe._replace(enabled=False) for probe in probes})
    made = (_PROBE.format(counter=each.counter, function=_function(each)) for each in distinct)
    return _BEGIN + "".join(made)


def _function(probe: Called) -> str:
    return f"__dtraceenabled_{probe.provider}___{probe.probe}"
