# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a patch in the process calls: it makes an event of the machine's state, and runs the clauses of a group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """``returns``: of points where functions are left, whose arg0 and arg1 are their own. ``light``: the clauses need
    nothing of the registers, and fewer are saved."""

    group: int
    returns: bool
    light: bool

    @property
    def name(self) -> str:
        return f"d_enter_{self.group}{'_return' if self.returns else ''}"


_NEEDS = ("event->arg", "event->caller", "gd_register(")


def is_light(text: str) -> bool:
    """Of C that makes no use of registers."""
    return not any(need in text for need in _NEEDS)


def entries(memory: int, wanted: list[Entry], probes: list[int], starts: list[int]) -> str:
    """``memory``: how far behind gilk_control it begins. By instrument number, from 1: ``probes`` are their numbers,
    ``starts`` the addresses of their functions.
    """
    text = _HEAD.format(
        memory=memory,
        probes=", ".join(map(str, [0, *probes])),
        starts=", ".join(f"{start:#x}UL" for start in [0, *starts]),
    )
    return text + "".join(_entry(each) for each in wanted)


def _entry(entry: Entry) -> str:
    if entry.light:
        return _LIGHT.format(name=entry.name, group=entry.group)
    arguments = _RETURN_ARGUMENTS if entry.returns else _ENTRY_ARGUMENTS
    return _WHOLE.format(name=entry.name, group=entry.group, arguments=arguments)


_HEAD = """
#include <gilk.h>

static const unsigned int d_probes[] = {{ {probes} }};
static const unsigned long d_starts[] __attribute__((unused)) = {{ {starts} }};

static inline unsigned char *d_memory(void)
{{
	return (unsigned char *)gilk_control + {memory};
}}

static inline void d_event(struct gd_event *event, unsigned int iid)
{{
	gd_u32 low, high, cpu;

	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu));
	event->time = (gd_u64)high << 32 | low;
	event->cpu = cpu & 0xfff;
	event->thread = gilk_gs_load(0);
	event->pid = (gd_u32)gilk_gs_load(16);
	event->tid = (gd_u32)(gilk_gs_load(16) >> 32);
	event->probe = d_probes[iid];
	event->caller = 0;
	event->regs = 0;
}}
"""

_LIGHT = """
void {name}(unsigned int iid)
{{
	struct gd_event event;

	d_event(&event, iid);
	d_group_{group}(d_memory(), &event, 0);
}}
"""

_WHOLE = """
void {name}(const struct gilk_regs *regs, unsigned int iid)
{{
	struct gd_event event;

	d_event(&event, iid);
	event.regs = (const gd_u64 *)regs;
	event.caller = *(const gd_u64 *)regs->rsp;
{arguments}	d_group_{group}(d_memory(), &event, 0);
}}
"""

_ENTRY_ARGUMENTS = """\
	event.arg[0] = regs->rdi;
	event.arg[1] = regs->rsi;
	event.arg[2] = regs->rdx;
	event.arg[3] = regs->rcx;
	event.arg[4] = regs->r8;
	event.arg[5] = regs->r9;
	event.arg[6] = event.arg[7] = event.arg[8] = event.arg[9] = 0;
"""

_RETURN_ARGUMENTS = """\
	gd_zero(event.arg, sizeof event.arg);
	event.arg[0] = regs->rip - d_starts[iid];
	event.arg[1] = regs->rax;
"""
