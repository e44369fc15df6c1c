/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Run instruments that see the registers, and instruments that call functions of the target.
 *
 * A thunk that has saved all registers calls this. While an instrument calls a function of the target, `busy` keeps
 * that function from running instruments of this kind; such hits are counted as nested.
 */
#include "runtime.h"

struct gilk_params gilk_params = {(struct gilk_control *)1, 0, 1, 1, 0, 1, 1, 0, 0, 0};

typedef void (*instrument_fn)(const struct gilk_regs *regs, gilk_u32 iid);

static int attached(void)
{
	if (host_owner() == host_self() + gilk_key)
		return 1;
	return (int)gilk_claim();
}

static void call_out(instrument_fn instrument, const struct gilk_regs *regs, gilk_u32 iid)
{
	struct gilk_block *block = host_block();
	int *error = gilk_params.errno_location ? gilk_params.errno_location() : 0;
	int kept = error ? *error : 0;

	block->busy = 1;
	instrument(regs, iid);
	block->busy = 0;
	if (error)
		*error = kept;
}

void gilk_dispatch(struct gilk_regs *regs, const struct gilk_call *call, int calls_out)
{
	instrument_fn instrument = (instrument_fn)(gilk_params.base + call->function);

	regs->rip = call->pc;
	regs->rsp = (gilk_u64)(call + 1) + call->shift;
	if (!attached())
		return;
	if (!calls_out) {
		instrument(regs, (gilk_u32)call->iid);
	} else if (host_block()->busy) {
		host_block()->nested++;
	} else {
		call_out(instrument, regs, (gilk_u32)call->iid);
	}
}

/* The built-in instrument `regs`. The upper bits of `number` are the client, the lower ones the iid. */
void gilk_log_registers(const struct gilk_regs *regs, gilk_u32 number)
{
	gilk_log_registers_in(client_control(number), regs, number & ((1U << GILK_IID_BITS) - 1));
}
