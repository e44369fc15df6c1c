/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A place that the program reaches, and that the client waits for.
 *
 * gilk_gate_reached is an instrument, of the client whose number is above the gate's. The hit that is counted down to opens
 * the client's wait, and, where the gate says so, holds its thread until the
 * client has done what it wants done before the program goes on. No thread is
 * held for longer than the rounds that the client allows and renews: one that
 * has died holds nobody up.
 */
#include "runtime.h"

#define ROUND_NS 10000000L

static struct gilk_gate *gate_at(struct gilk_control *control, gilk_u32 number)
{
	return control ? (struct gilk_gate *)((char *)control + GILK_GATES_AT) + number : 0;
}

static int is_last_hit(struct gilk_gate *gate)
{
	if (__atomic_load_n(&gate->state, __ATOMIC_ACQUIRE) != GILK_GATE_ARMED)
		return 0;
	return __atomic_fetch_sub(&gate->left, 1, __ATOMIC_ACQ_REL) == 1;
}

static int held(struct gilk_gate *gate, gilk_u64 frame)
{
	gilk_u32 rounds = __atomic_load_n(&gate->rounds, __ATOMIC_RELAXED);

	if (!rounds || __atomic_load_n(&gate->state, __ATOMIC_ACQUIRE) != GILK_GATE_REACHED)
		return 0;
	if (__atomic_load_n(&gate->frame, __ATOMIC_RELAXED) != frame)
		return 0;
	__atomic_store_n(&gate->rounds, rounds - 1, __ATOMIC_RELAXED);
	return 1;
}

void gilk_gate_reached(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_gate *gate = gate_at(client_control(number), number % GILK_GATES);
	gilk_u64 frame = (gilk_u64)regs;

	if (!gate || !is_last_hit(gate))
		return;
	gate->pid = known_pid(host_pid());
	gate->tid = host_tid();
	gate->tsc = host_clock();
	__atomic_store_n(&gate->frame, frame, __ATOMIC_RELAXED);
	__atomic_store_n(&gate->state, GILK_GATE_REACHED, __ATOMIC_RELEASE);
	host_wake(&gate->state);
	while (held(gate, frame))
		host_wait(&gate->state, GILK_GATE_REACHED, ROUND_NS);
	__atomic_compare_exchange_n(&gate->frame, &frame, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
