// SPDX-License-Identifier: GPL-2.0
/*
 * Runs groups each time that a CPU has counted so many events, as perf_event_open(2) counts them: cycles, page faults,
 * or hits of an event of tracefs, whose fields then are the group's.
 *
 * An event of the processor itself ends in an NMI, one of the kernel in the context in which it happens.
 * Need: ilk_mutex, but at a hit.
 */
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "attached.h"
#include "d.h"
#include "../../host/kernel.h"

#define COUNTED_MAX 8192u /* of a program; an event on every CPU counts once for each that is online */

struct counted {
	struct list_head list;
	struct perf_event *event; /* null: the CPU is offline */
	struct ilk_program *program;
	struct ilk_d_perf message;
	int cpu;
	bool fields; /* arg0 is the address of the event's fields */
};

/*
 * The frame of the function that has noted its own frame and its caller's address, as perf_fetch_caller_regs() does:
 * the caller's registers lie there. False: that is not what lies there.
 */
static bool load_caller(struct gilk_regs *to, const struct pt_regs *regs)
{
	u64 frame[2]; /* the caller's rbp, and the return address */

	if (host_peek(0, frame, regs->sp, sizeof(frame)) || frame[1] != regs->ip)
		return false;
	to->rbp = frame[0];
	to->rip = regs->ip;
	to->rsp = regs->sp + sizeof(frame);
	return true;
}

/* Load the registers at the place, if that is in the kernel; null: it is not, or they are not known. */
static const struct gilk_regs *load_registers(struct gilk_regs *to, const struct pt_regs *regs)
{
	if (user_mode((struct pt_regs *)regs)) /* not const before Linux 6.3 */
		return NULL;
	*to = (struct gilk_regs){ .rflags = regs->flags };
	if (!(regs->flags & X86_EFLAGS_FIXED))
		return load_caller(to, regs) ? to : NULL;
	to->r15 = regs->r15;
	to->r14 = regs->r14;
	to->r13 = regs->r13;
	to->r12 = regs->r12;
	to->rbp = regs->bp;
	to->rbx = regs->bx;
	to->r11 = regs->r11;
	to->r10 = regs->r10;
	to->r9 = regs->r9;
	to->r8 = regs->r8;
	to->rax = regs->ax;
	to->rcx = regs->cx;
	to->rdx = regs->dx;
	to->rsi = regs->si;
	to->rdi = regs->di;
	to->rip = regs->ip;
	to->rsp = regs->sp;
	return to;
}

static void happens(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	const struct counted *counted = event->overflow_handler_context;
	struct ilk_firing firing = {
		.program = counted->program, .group = counted->message.group, .probe = counted->message.probe,
	};
	struct gilk_regs registers;
	unsigned long flags;

	raw_local_irq_save(flags);
	firing.regs = load_registers(&registers, regs);
	if (!counted->fields)
		firing.arg[user_mode(regs)] = instruction_pointer(regs);
	else if (data->raw)
		firing.arg[0] = (u64)(unsigned long)data->raw->frag.data;
	ilk_d_run(&firing);
	raw_local_irq_restore(flags);
}

static struct perf_event *create(struct counted *counted)
{
	const struct ilk_d_perf *m = &counted->message;
	struct perf_event_attr attributes = {
		.type = m->type,
		.size = sizeof(attributes),
		.config = m->config,
		.sample_period = m->period,
		.sample_type = m->flags & ILK_D_FIELDS ? PERF_SAMPLE_RAW : 0,
		.exclude_user = !!(m->flags & ILK_D_NO_USER),
		.exclude_kernel = !!(m->flags & ILK_D_NO_KERNEL),
		.exclude_hv = 1,
	};

	return perf_event_create_kernel_counter(&attributes, counted->cpu, NULL, happens, counted);
}

/* Begin to count on its CPU, unless that is offline, or goes offline meanwhile. */
static int begin(struct counted *counted)
{
	struct perf_event *event = cpu_online(counted->cpu) ? create(counted) : ERR_PTR(-ENODEV);

	if (!IS_ERR(event))
		counted->event = event;
	return IS_ERR(event) && PTR_ERR(event) != -ENODEV ? PTR_ERR(event) : 0;
}

static int add(struct ilk_program *p, const void *message, int cpu)
{
	const struct ilk_d_perf *m = message;
	struct counted *counted;
	int error;

	if (p->nr_counted >= COUNTED_MAX)
		return -E2BIG;
	counted = kzalloc(sizeof(*counted), GFP_KERNEL);
	if (!counted)
		return -ENOMEM;
	counted->program = p;
	counted->message = *m;
	counted->cpu = cpu;
	counted->fields = m->flags & ILK_D_FIELDS;
	error = begin(counted);
	if (error) {
		kfree(counted);
		return error;
	}
	list_add_tail(&counted->list, &p->counted);
	p->nr_counted += cpu_online(cpu);
	return 0;
}

/* Whether the kernel has taken the event from its CPU, which has gone offline, and perhaps come back. */
static bool is_detached(const struct perf_event *event)
{
	return !(READ_ONCE(event->attach_state) & PERF_ATTACH_CONTEXT);
}

/* Count anew on CPUs that have come online. */
void ilk_d_perf_renew(struct ilk_program *p)
{
	struct counted *counted;

	list_for_each_entry(counted, &p->counted, list) {
		if (counted->event && is_detached(counted->event)) {
			perf_event_release_kernel(counted->event);
			counted->event = NULL;
		}
		if (!counted->event)
			begin(counted);
	}
}

/* Find out whether the first CPU counts such events. */
static int try(const struct ilk_d_perf *m)
{
	struct perf_event_attr attributes = {
		.type = m->type, .size = sizeof(attributes), .config = m->config, .disabled = 1, .exclude_hv = 1,
	};
	struct perf_event *event =
		perf_event_create_kernel_counter(&attributes, cpumask_first(cpu_online_mask), NULL, NULL, NULL);

	return IS_ERR(event) ? PTR_ERR(event) : perf_event_release_kernel(event);
}

static bool is_possible(const struct ilk_d_perf *m)
{
	const u32 known = ILK_D_EVERY_CPU | ILK_D_NO_USER | ILK_D_NO_KERNEL | ILK_D_FIELDS | ILK_D_TRY;

	return !(m->flags & ~known) && m->period && !(m->period >> 62) &&
	       (m->type == PERF_TYPE_HARDWARE || m->type == PERF_TYPE_SOFTWARE || m->type == PERF_TYPE_RAW ||
		(m->type == PERF_TYPE_TRACEPOINT && m->flags & ILK_D_FIELDS));
}

int ilk_d_perf(struct ilk_client *client, struct ilk_d_perf *m)
{
	struct ilk_program *p = client->program;

	if (!is_possible(m))
		return -EINVAL;
	if (m->flags & ILK_D_TRY)
		return try(m);
	if (!p)
		return -ENXIO;
	if (m->group >= p->clauses.sizes.groups)
		return -EINVAL;
	return ilk_d_on_cpus(m->flags & ILK_D_EVERY_CPU, add, p, m);
}

/* Stop to count. The program runs at no event any more when this returns. */
void ilk_d_perf_stop(struct ilk_program *p)
{
	struct counted *counted, *next;

	if (list_empty(&p->counted))
		return;
	list_for_each_entry(counted, &p->counted, list)
		if (counted->event)
			perf_event_release_kernel(counted->event);
	synchronize_rcu(); /* handlers run with preemption disabled */
	list_for_each_entry_safe(counted, next, &p->counted, list) {
		list_del(&counted->list);
		kfree(counted);
	}
}
