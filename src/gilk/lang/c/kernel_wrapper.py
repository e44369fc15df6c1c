# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that is put around a user's instrument for the kernel, which makes it a module."""

from __future__ import annotations

from pathlib import Path

from gilk.lang.c.wrapper import ENTRY, PLAIN, forms

_MODULE = """\
#include <linux/module.h>
#include <gilk.h>

gilk_u32 gilk_set;
void (*gilk_log_pair)(gilk_u32 set, gilk_u32 iid, gilk_u64 value, gilk_u64 extra);
void (*gilk_log_string)(gilk_u32 set, gilk_u32 iid, const char *text);
void (*gilk_log_registers)(gilk_u32 set, gilk_u32 iid, const struct gilk_regs *regs);

static unsigned long pair, string, registers;
module_param_named(set, gilk_set, uint, 0);
module_param(pair, ulong, 0);
module_param(string, ulong, 0);
module_param(registers, ulong, 0);

{forms}
static int __init gilk_instrument_load(void)
{{
	gilk_log_pair = (void *)pair;
	gilk_log_string = (void *)string;
	gilk_log_registers = (void *)registers;
	return 0;
}}

static void __exit gilk_instrument_unload(void)
{{
}}

module_init(gilk_instrument_load);
module_exit(gilk_instrument_unload);
MODULE_DESCRIPTION("An instrument of gilk");
MODULE_LICENSE("GPL");
"""

_KBUILD = """\
obj-m := {name}.o
CFLAGS_REMOVE_{name}.o := $(CC_FLAGS_FTRACE)
ccflags-y := -I $(src)/include -I $(src)/beside -Wno-strict-prototypes
"""
#: Links beside the Kbuild file, which have no spaces: make and fixdep (scripts/basic) divide names at spaces.
INCLUDE, BESIDE, SOURCE = "include", "beside", "instrument.c"


def module(source: Path, function: str) -> str:
    """The module's own file, which includes the user's."""
    return _MODULE.format(forms=forms(source, function))


def kbuild(name: str) -> str:
    """The Kbuild file of module ``name``. It compiles without calls of ftrace, so that an instrument never enters
    ftrace.
    """
    return _KBUILD.format(name=name)


def in_user_terms(said: str, place: Path, source: Path) -> str:
    """The compiler's messages, with the names of the user's files in place of the links in ``place``."""
    return said.replace(str(place / SOURCE), str(source)).replace(str(place / BESIDE), str(source.parent))


__all__ = ["BESIDE", "ENTRY", "INCLUDE", "PLAIN", "SOURCE", "in_user_terms", "kbuild", "module"]
