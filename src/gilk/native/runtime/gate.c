/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Gates: a client waits until the program reaches a place.
 *
 * gilk_gate_reached is an instrument; the upper bits of its number are the client, the lower ones the gate. Each hit
 * counts the gate down. The last one ends the client's wait and, if the gate is set up so, holds the thread until the
 * client lets it go on. A thread is held for no more rounds than the client has allowed; the client renews them, so a
 * client that has died does not hold up the program.
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
