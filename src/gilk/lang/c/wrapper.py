# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that is put around a user's instrument, and the layout with which it is linked."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

ENTRY, PLAIN, FORM = "gilk_instrument_entry", "gilk_instrument_plain", "gilk_instrument_form"
VALUES = "gilk_instrument_values"


class Form(IntEnum):
    """The arguments of an instrument besides its iid; the byte FORM in the object has the value."""

    PLAIN = 0  # none
    REGISTERS = 1  # all registers
    VALUES = 2  # those of a call, in their registers


_WRAPPER = """\
#include <gilk.h>
{forms}"""

_FORMS = """\
#include "{path}"

#define gilk_takes(type) __builtin_types_compatible_p(__typeof__(&{function}), type)
#define gilk_plain gilk_takes(void (*)(unsigned int))
#define gilk_regs_only gilk_takes(void (*)(const struct gilk_regs *))
#define gilk_regs_iid gilk_takes(void (*)(const struct gilk_regs *, unsigned int))
#define gilk_values gilk_takes(void (*)(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, \\
					unsigned long, unsigned int, unsigned long))

_Static_assert(gilk_plain || gilk_regs_only || gilk_regs_iid || gilk_values,
	"an instrument is void {function}(unsigned int), "
	"void {function}(const struct gilk_regs *) or void {function}(const struct gilk_regs *, unsigned int)");

static inline void gilk_nothing() {{}}

/* class Form in lang/c/wrapper.py */
__attribute__((used)) const unsigned char gilk_instrument_form = gilk_plain ? 0 : gilk_values ? 2 : 1;

__attribute__((used)) void gilk_instrument_entry(const struct gilk_regs *regs, unsigned int iid)
{{
	(void)regs;
	(void)iid;
	__builtin_choose_expr(gilk_plain, {function}, gilk_nothing)(iid);
	__builtin_choose_expr(gilk_regs_only, {function}, gilk_nothing)(regs);
	__builtin_choose_expr(gilk_regs_iid, {function}, gilk_nothing)(regs, iid);
	__builtin_choose_expr(gilk_values, {function}, gilk_nothing)(regs->rdi, regs->rsi, regs->rdx, regs->rcx, regs->r8,
		regs->r9, iid, regs->rax);
}}

/* For the last form, and for the first; the function itself may have been inlined and be gone. */
__attribute__((used)) void gilk_instrument_values(unsigned long rdi, unsigned long rsi, unsigned long rdx,
	unsigned long rcx, unsigned long r8, unsigned long r9, unsigned int iid, unsigned long rax)
{{
	(void)rdi, (void)rsi, (void)rdx, (void)rcx, (void)r8, (void)r9, (void)iid, (void)rax;
	__builtin_choose_expr(gilk_values, {function}, gilk_nothing)(rdi, rsi, rdx, rcx, r8, r9, iid, rax);
}}

__attribute__((used)) void gilk_instrument_plain(unsigned int iid)
{{
	(void)iid;
	__builtin_choose_expr(gilk_plain, {function}, gilk_nothing)(iid);
}}
"""

_SCRIPT = """\
SECTIONS
{{
	. = {code:#x};
	.all : {{
		*(.text .text.*)
		gilk_text_end = .;
		*(.rodata .rodata.*)
		*(.data.rel.ro .data.rel.ro.*)
		*(.got .got.*)
	}}
	. = {data:#x};
	.held : {{ *(.data .data.*) *(.bss .bss.* COMMON) }}
	/DISCARD/ : {{ *(.comment) *(.note*) *(.eh_frame*) }}
}}
"""


def wrapper(path: Path, function: str) -> str:
    """The C around the user's file, which it includes, so that the compiler's messages name lines of that file."""
    return _WRAPPER.format(forms=forms(path, function))


def forms(path: Path, function: str) -> str:
    """An include of the user's file, and functions that call its ``function``, whichever form that has."""
    return _FORMS.format(path=path, function=function)


def link_script(code: int, data: int) -> str:
    """A linker script that places code and constants at ``code``, variables at ``data``."""
    return _SCRIPT.format(code=code, data=data)
