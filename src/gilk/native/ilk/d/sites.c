// SPDX-License-Identifier: GPL-2.0
/*
 * The sites at which probes fire. A patch has the site's number; programs are attached to sites.
 *
 * A site's list of attachments is changed under ilk_mutex; code that walks it at a hit has interrupts off.
 */
#include <linux/err.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/sched/task_stack.h>
#include <linux/vmalloc.h>

#include "d.h"
#include "../../host/kernel.h"

#define ATTACHED_MAX 256u /* of one program at one site */

/*
 * Whether the client may attach to the site: one of its own, or one in force that is of the kind and at the address it
 * expects.
 */
static bool may_attach(const struct ilk_client *client, const struct ilk_d_attach *m)
{
	const struct ilk_d_site *site = &ilk_d_sites[m->site];

	if (site->client == client && !ilk_d_in_force(site))
		return true;
	return ilk_d_in_force(site) && site->address == m->address && site->kind == m->kind;
}

static bool is_attachable(const struct ilk_client *client, const struct ilk_d_attach *m, u32 size)
{
	u32 i;
	bool calls = m->kind == ILK_D_CALL_BEGINS || m->kind == ILK_D_CALL_ENDS;

	if (m->site >= ilk_d_sites_end || !may_attach(client, m) || m->kind >= ILK_D_KINDS || m->flags & ~ILK_D_DEEP ||
	    m->count > (size - sizeof(*m)) / sizeof(m->choice[0]) || (!calls && m->count) ||
	    m->group >= client->program->clauses.sizes.groups || m->role >= ILK_D_ROLES || m->reserved ||
	    (calls && m->role))
		return false;
	for (i = 0; i < m->count; i++)
		if (m->choice[i].value >= ILK_D_SYSTEM_CALLS ||
		    m->choice[i].group >= client->program->clauses.sizes.groups)
			return false;
	return true;
}

static void choose(struct ilk_attached *attached, const struct ilk_d_attach *m)
{
	u32 i;

	for (i = 0; i < ILK_D_SYSTEM_CALLS; i++)
		attached->call[i].group = ~0u;
	for (i = 0; i < m->count; i++)
		attached->call[m->choice[i].value] = m->choice[i];
}

/* How many attachments the program has at the site. A hit runs them all, with interrupts off. */
static u32 attached_already(const struct ilk_d_site *site, const struct ilk_program *program)
{
	const struct ilk_attached *each;
	u32 count = 0;

	for (each = rcu_dereference_protected(site->first, true); each; each = rcu_dereference_protected(each->next, true))
		count += each->program == program;
	return count;
}

int ilk_d_attach(struct ilk_client *client, struct ilk_d_attach *m, u32 size)
{
	struct ilk_attached *attached, __rcu **end;
	bool calls = m->kind == ILK_D_CALL_BEGINS || m->kind == ILK_D_CALL_ENDS;

	if (!client->program)
		return -ENXIO;
	if (!is_attachable(client, m, size))
		return -EINVAL;
	if (attached_already(&ilk_d_sites[m->site], client->program) >= ATTACHED_MAX)
		return -E2BIG;
	attached = kvzalloc(struct_size(attached, call, calls ? ILK_D_SYSTEM_CALLS : 0), GFP_KERNEL);
	if (!attached)
		return -ENOMEM;
	attached->program = client->program;
	attached->kind = m->kind;
	attached->group = m->group;
	attached->probe = m->probe;
	attached->start = m->start;
	attached->deep = m->flags & ILK_D_DEEP;
	attached->role = m->role;
	if (calls)
		choose(attached, m);
	if (!ilk_d_in_force(&ilk_d_sites[m->site])) {
		ilk_d_sites[m->site].address = m->address;
		ilk_d_sites[m->site].kind = m->kind;
	}
	for (end = &ilk_d_sites[m->site].first; rcu_access_pointer(*end);)
		end = &rcu_dereference_protected(*end, true)->next;
	rcu_assign_pointer(*end, attached);
	return 0;
}

/* Remove a program's attachments from a site's list. */
static struct ilk_attached *take(struct ilk_d_site *site, const struct ilk_program *program, struct ilk_attached *taken)
{
	struct ilk_attached __rcu **at = &site->first;
	struct ilk_attached *each;

	while ((each = rcu_dereference_protected(*at, true))) {
		if (each->program != program) {
			at = &each->next;
			continue;
		}
		rcu_assign_pointer(*at, rcu_dereference_protected(each->next, true));
		each->gone = taken; /* code that is at this element still follows `next` */
		taken = each;
	}
	return taken;
}

static struct ilk_attached *take_all(const struct ilk_program *program)
{
	struct ilk_attached *taken = NULL;
	u32 i;

	for (i = 0; i < ilk_d_sites_end; i++)
		if (rcu_access_pointer(ilk_d_sites[i].first))
			taken = take(&ilk_d_sites[i], program, taken);
	return taken;
}

/* Detach the client's program from all sites. It runs at none of them any more when this returns; the sites stay. */
void ilk_d_detach_all(struct ilk_client *client)
{
	struct ilk_attached *taken = take_all(client->program), *next;

	if (!taken)
		return;
	synchronize_rcu();
	for (; taken; taken = next) {
		next = taken->gone;
		kvfree(taken);
	}
}

static void load_arguments(struct ilk_firing *firing, const struct gilk_regs *regs, bool deep)
{
	firing->arg[0] = regs->rdi;
	firing->arg[1] = regs->rsi;
	firing->arg[2] = regs->rdx;
	firing->arg[3] = regs->rcx;
	firing->arg[4] = regs->r8;
	firing->arg[5] = regs->r9;
	if (!deep || host_peek(0, &firing->arg[6], regs->rsp + 8, 4 * sizeof(u64)))
		ilk_d_no_more(firing, 6);
}

static void load_call(struct ilk_firing *firing, const struct pt_regs *call, bool begins)
{
	if (!begins) {
		firing->arg[0] = firing->arg[1] = call->ax;
		firing->error = IS_ERR_VALUE(call->ax) ? -(s32)call->ax : 0;
		ilk_d_no_more(firing, 2);
		return;
	}
	firing->arg[0] = call->di;
	firing->arg[1] = call->si;
	firing->arg[2] = call->dx;
	firing->arg[3] = call->r10;
	firing->arg[4] = call->r8;
	firing->arg[5] = call->r9;
	ilk_d_no_more(firing, 6);
}

/*
 * Choose the group for a system call. Both functions get the registers of the call in `rdi`, which must be the task's
 * own pt_regs; another address is not read. False: no group is to run.
 */
static bool choose_call(struct ilk_firing *firing, const struct ilk_attached *attached, const struct gilk_regs *regs)
{
	const struct pt_regs *call = task_pt_regs(current);
	bool begins = attached->kind == ILK_D_CALL_BEGINS;
	const struct ilk_d_choice *choice;
	u64 number;

	if (regs->rdi != (u64)(unsigned long)call || (!begins && in_ia32_syscall()))
		return false;
	number = begins ? (u32)regs->rsi : call->orig_ax;
	if (number >= ILK_D_SYSTEM_CALLS)
		return false;
	choice = &attached->call[number];
	if (choice->group == ~0u)
		return false;
	firing->group = choice->group;
	firing->probe = choice->probe;
	load_call(firing, call, begins);
	return true;
}

static void run(const struct ilk_attached *attached, const struct gilk_regs *regs)
{
	struct ilk_firing firing;

	firing.program = attached->program;
	firing.group = attached->group;
	firing.probe = attached->probe;
	firing.always = false;
	firing.waits = false;
	firing.error = 0;
	firing.edge = 0;
	firing.regs = regs;
	switch (attached->kind) {
	case ILK_D_ENTRY:
		load_arguments(&firing, regs, attached->deep);
		break;
	case ILK_D_RETURN:
		firing.arg[0] = regs->rip - attached->start;
		firing.arg[1] = regs->rax;
		ilk_d_no_more(&firing, 2);
		break;
	default:
		if (!choose_call(&firing, attached, regs))
			return;
	}
	ilk_d_run(&firing);
}

/*
 * Do what an attachment is there for besides running its group, and run those of calls that are over here, as if they
 * had ended at their jumps. Out of line, as few need it.
 */
static noinline void follow(const struct ilk_attached *attached, const struct gilk_regs *regs)
{
	struct ilk_ended call = { attached->group, attached->probe, regs->rip, attached->start };
	struct ilk_ended ended[ILK_D_ENDED_MAX];
	u32 i, count = ilk_d_follow(attached->program, attached->role, regs->rsp, &call, ended);

	for (i = 0; i < count; i++) {
		struct gilk_regs there = *regs;
		struct ilk_firing firing = {
			.program = attached->program, .group = ended[i].group, .probe = ended[i].probe, .regs = &there,
			.arg = { ended[i].at - ended[i].start, regs->rax },
		};

		there.rip = ended[i].at;
		ilk_d_run(&firing);
	}
}

static void fire(const struct ilk_attached *attached, const struct gilk_regs *regs)
{
	if (attached->role <= ILK_D_RETURNS)
		run(attached, regs);
	if (attached->role != ILK_D_FIRES)
		follow(attached, regs);
}

/* Called by the thunk ilk_fire. */
void ilk_d_hit(struct gilk_regs *regs, const struct gilk_call *call)
{
	struct ilk_attached *each;
	unsigned long flags;

	if (call->iid >= READ_ONCE(ilk_d_sites_end))
		return;
	regs->rip = call->pc;
	regs->rsp = (u64)(unsigned long)(call + 1) + call->shift;
	raw_local_irq_save(flags);
	if (ilk_hit_omits(ILK_OMIT_INTERRUPTS))
		raw_local_irq_restore(flags);
	for (each = rcu_dereference_raw(ilk_d_sites[call->iid].first); each; each = rcu_dereference_raw(each->next))
		fire(each, regs);
	raw_local_irq_restore(flags);
}
