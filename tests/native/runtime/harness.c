/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The runtime of a process as functions that ctypes can call, on the host of tests. */
#include "runtime/runtime.h"

#define OUT __attribute__((visibility("default")))

gilk_u64 gilk_key;

void gilk_gate_reached(const struct gilk_regs *regs, gilk_u32 number);
void gilk_signal_enter(const struct gilk_regs *regs, gilk_u32 iid);
void gilk_signal_enter_go(const struct gilk_regs *regs, gilk_u32 iid);
void gilk_signal_leave(const struct gilk_regs *regs, gilk_u32 iid);
void gilk_log_registers(const struct gilk_regs *regs, gilk_u32 iid);

OUT void t_open(struct gilk_control *control, const struct gilk_places *places)
{
	gilk_params = (struct gilk_params){.control = control, .places = places, .inner = host_pid(), .outer = 4242};
	gilk_key = 0;
	host_attach(0);
	host_test.first = (struct gilk_block *)control; /* as the keeper has it: the control page is nobody's */
}

/* As a child finds it: the key is gone, the block is still there. */
OUT void t_forked(void)
{
	gilk_key = 0;
}

OUT gilk_u32 t_claim(void)
{
	return gilk_claim();
}

OUT struct gilk_block *t_block(void)
{
	return host_block();
}

OUT void t_dispatch(struct gilk_regs *regs, void (*function)(const struct gilk_regs *regs, gilk_u32 iid), gilk_u64 pc,
		    gilk_u64 shift, gilk_u32 iid, int calls_out)
{
	struct gilk_call call = {pc, shift, (gilk_u64)function, iid};

	gilk_dispatch(regs, &call, calls_out);
	regs->rsp -= (gilk_u64)&call;
}

OUT void t_gate(const struct gilk_regs *regs, gilk_u32 number)
{
	gilk_gate_reached(regs, number);
}

OUT void t_signal_enter(const struct gilk_regs *regs)
{
	gilk_signal_enter(regs, 0);
}

OUT void t_signal_enter_go(const struct gilk_regs *regs)
{
	gilk_signal_enter_go(regs, 0);
}

OUT void t_signal_leave(const struct gilk_regs *regs)
{
	gilk_signal_leave(regs, 0);
}

OUT void t_log_pair(gilk_u64 value, gilk_u64 extra, gilk_u32 iid)
{
	ilk_log_pair_sample(value, extra, iid);
}

OUT void t_log_string(const char *text, gilk_u32 iid)
{
	ilk_log_string_sample(text, iid);
}

OUT void t_log_registers(const struct gilk_regs *regs, gilk_u32 iid)
{
	gilk_log_registers(regs, iid);
}
