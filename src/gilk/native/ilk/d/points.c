// SPDX-License-Identifier: GPL-2.0
/*
 * Runs groups at tracepoints of the kernel or of a module, which is kept loaded while a program is at one of its
 * tracepoints.
 *
 * A point is freed when every task that may be in its probe has left it. Need: ilk_mutex.
 */
#include <linux/bio.h>
#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "attached.h"
#include "d.h"
#include "../../host/kernel.h"

#define POINTS_MAX 4096u /* of a program */
#define REQUESTS_END "block_rq_complete"
#define IN_REGISTERS 5u /* arguments of the tracepoint that are passed in registers */

struct point {
	struct list_head list;
	struct tracepoint *tracepoint;
	struct module *owner; /* null: the kernel */
	struct ilk_program *program;
	u32 group;
	u32 probe;
	bool deep;
	bool bios;
};

struct search {
	struct notifier_block notifier;
	const char *name;
	struct tracepoint *found;
	struct module *owner; /* held */
};

static void look(struct tracepoint *tracepoint, void *given)
{
	struct search *search = given;

	if (!search->found && !strcmp(tracepoint->name, search->name))
		search->found = tracepoint;
}

#ifdef CONFIG_MODULES
/* The notifier is called for every loaded module with tracepoints when it is registered. */
static int look_in_module(struct notifier_block *self, unsigned long event, void *given)
{
	struct search *search = container_of(self, struct search, notifier);
	struct module *module = ((struct tp_module *)given)->mod;
	unsigned int i;

	if (event != MODULE_STATE_COMING || search->found)
		return NOTIFY_OK;
	for (i = 0; i < module->num_tracepoints; i++)
		look(tracepoint_ptr_deref(&module->tracepoints_ptrs[i]), search);
	if (search->found && try_module_get(module))
		search->owner = module;
	else
		search->found = NULL;
	return NOTIFY_OK;
}

static int look_in_modules(struct search *search)
{
	int error;

	search->notifier.notifier_call = look_in_module;
	error = register_tracepoint_module_notifier(&search->notifier);
	if (!error)
		unregister_tracepoint_module_notifier(&search->notifier);
	return error;
}
#else
static int look_in_modules(struct search *search)
{
	return 0;
}
#endif

static int find(struct search *search)
{
	int error = 0;

	for_each_kernel_tracepoint(look, search);
	if (!search->found)
		error = look_in_modules(search);
	return error ? error : search->found ? 0 : -ENOENT;
}

static int add(struct ilk_program *p, const struct ilk_d_point *m, const struct search *search)
{
	struct point *point = kzalloc(sizeof(*point), GFP_KERNEL);
	int error;

	if (!point)
		return -ENOMEM;
	point->tracepoint = search->found;
	point->owner = search->owner;
	point->program = p;
	point->group = m->group;
	point->probe = m->probe;
	point->deep = m->flags & ILK_D_DEEP;
	point->bios = m->flags & ILK_D_BIOS;
	error = tracepoint_probe_register(point->tracepoint, ilk_point, point);
	if (error)
		kfree(point);
	else
		list_add_tail(&point->list, &p->points);
	return error;
}

int ilk_d_point(struct ilk_client *client, struct ilk_d_point *m)
{
	struct search search = { .name = m->name };
	struct ilk_program *p = client->program;
	int error;

	if (!p)
		return -ENXIO;
	if (m->group >= p->clauses.sizes.groups || m->reserved || m->flags & ~(ILK_D_DEEP | ILK_D_BIOS) ||
	    strnlen(m->name, sizeof(m->name)) == sizeof(m->name))
		return -EINVAL;
	if (m->flags & ILK_D_BIOS && strcmp(m->name, REQUESTS_END))
		return -EINVAL;
	if (ilk_d_length(&p->points) >= POINTS_MAX)
		return -E2BIG;
	error = find(&search);
	if (!error)
		error = add(p, m, &search);
	if (error && search.owner)
		module_put(search.owner);
	return error;
}

/* Remove all points of the program. None of them runs any more when this returns. */
void ilk_d_points_stop(struct ilk_program *p)
{
	struct point *point, *next;

	if (list_empty(&p->points))
		return;
	list_for_each_entry(point, &p->points, list)
		tracepoint_probe_unregister(point->tracepoint, ilk_point, point);
	tracepoint_synchronize_unregister();
	list_for_each_entry_safe(point, next, &p->points, list) {
		module_put(point->owner);
		list_del(&point->list);
		kfree(point);
	}
}

/* Load the arguments from the sixth on, which lie on the stack above the return address. */
static void load_deep(struct ilk_firing *firing, const u64 *stack, bool deep)
{
	if (!deep || host_peek(0, &firing->arg[IN_REGISTERS], (u64)(unsigned long)(stack + 1),
			       (10 - IN_REGISTERS) * sizeof(u64))) {
		firing->arg[5] = 0;
		ilk_d_no_more(firing, 6);
	}
}

/*
 * Run the group for each bio that ends completely when so many bytes of a request end, before the block layer ends it.
 * A request may have a bio of no bytes; if it had data before, these have ended, and now the flush behind them ends.
 */
static void run_bios(struct ilk_firing *firing)
{
	const struct request *request = (const struct request *)(unsigned long)firing->arg[0];
	u32 left = (u32)firing->arg[2];
	const struct bio *bio;

	for (bio = request->bio; bio && bio->bi_iter.bi_size <= left; bio = bio->bi_next) {
		u32 size = bio->bi_iter.bi_size;

		firing->arg[0] = (u64)(unsigned long)bio;
		if (size || !bio->bi_vcnt)
			ilk_d_run(firing);
		left -= size;
		if (!left)
			break;
	}
}

/* Called by the thunk ilk_point. `stack` points at the return address. */
void ilk_d_point_hit(struct gilk_regs *regs, const u64 *stack)
{
	const struct point *point = (const struct point *)regs->rdi;
	struct ilk_firing firing;
	unsigned long flags;

	regs->rip = stack[0];
	regs->rsp = (u64)(unsigned long)(stack + 1);
	raw_local_irq_save(flags);
	firing.program = point->program;
	firing.group = point->group;
	firing.probe = point->probe;
	firing.always = false;
	firing.waits = false;
	firing.error = 0;
	firing.edge = 0;
	firing.regs = regs;
	firing.arg[0] = regs->rsi;
	firing.arg[1] = regs->rdx;
	firing.arg[2] = regs->rcx;
	firing.arg[3] = regs->r8;
	firing.arg[4] = regs->r9;
	load_deep(&firing, stack, point->deep);
	if (point->bios)
		run_bios(&firing);
	else
		ilk_d_run(&firing);
	raw_local_irq_restore(flags);
}
