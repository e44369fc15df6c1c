// SPDX-License-Identifier: GPL-2.0
/*
 * Functions' fentry nops belong to ftrace: it makes them call a patch each, and
 * knows who else is there.
 *
 * Its interface takes one address for many functions, or one function at a
 * time, which costs a tenth of a second each. So all functions of a change are
 * registered together, to call `ilk_fentry_idle`, and then each is led to its
 * own patch, in the way in which modify_ftrace_direct_multi() does that: while
 * a second, empty ops is on the same functions, their text calls ftrace's own
 * entry, which looks the address up, and the addresses may be changed. Taking
 * some out of a group is the same in reverse: they change over to ops of their
 * own, which then goes.
 */
#include <linux/ftrace.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "ilk.h"

struct ilk_fentries {
	struct ftrace_ops ops;
	u32 count;
};

static void nothing(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
		    struct ftrace_regs *regs)
{
}

static unsigned long *addresses_of(struct ilk_site **sites, u32 count)
{
	unsigned long *addresses = kvcalloc(count, sizeof(*addresses), GFP_KERNEL | __GFP_NOFAIL);
	u32 i;

	for (i = 0; i < count; i++)
		addresses[i] = sites[i]->address;
	return addresses;
}

static int filter(struct ftrace_ops *ops, struct ilk_site **sites, u32 count, int remove)
{
	unsigned long *addresses = addresses_of(sites, count);
	int error = ftrace_set_filter_ips(ops, addresses, count, remove, 0);

	kvfree(addresses);
	return error;
}

/* Makes ftrace look up what these functions call. */
static int hold(struct ftrace_ops *held, struct ilk_site **sites, u32 count)
{
	int error;

	*held = (struct ftrace_ops){ .func = nothing, .flags = FTRACE_OPS_FL_STUB };
	error = filter(held, sites, count, 0);
	if (!error)
		error = register_ftrace_function(held);
	if (error)
		ftrace_free_filter(held);
	return error;
}

static void let_go(struct ftrace_ops *held)
{
	unregister_ftrace_function(held);
	ftrace_free_filter(held);
}

/* To their patches, or all to the idle function. They must be held. */
static void lead(struct ilk_site **sites, u32 count, bool home)
{
	u32 i;

	mutex_lock(ilk_kernel.direct_mutex);
	mutex_lock(ilk_kernel.ftrace_lock);
	for (i = 0; i < count; i++) {
		struct ftrace_func_entry *entry = ilk_kernel.ftrace_lookup_ip(
			*ilk_kernel.direct_functions, sites[i]->address);

		if (entry)
			entry->direct = home ? (unsigned long)ilk_fentry_idle : sites[i]->patch;
	}
	mutex_unlock(ilk_kernel.ftrace_lock);
	mutex_unlock(ilk_kernel.direct_mutex);
}

static int attach_held(struct ilk_fentries *group, struct ilk_site **sites, u32 count)
{
	int error = filter(&group->ops, sites, count, 0);

	if (!error)
		error = register_ftrace_direct_multi(&group->ops, (unsigned long)ilk_fentry_idle);
	if (error)
		ftrace_free_filter(&group->ops);
	else
		lead(sites, count, false);
	return error;
}

static int attach(struct ilk_site **sites, u32 count)
{
	struct ilk_fentries *group = kzalloc(sizeof(*group), GFP_KERNEL);
	struct ftrace_ops *held = kzalloc(sizeof(*held), GFP_KERNEL);
	int error = group && held ? hold(held, sites, count) : -ENOMEM;
	u32 i;

	if (!error) {
		error = attach_held(group, sites, count);
		let_go(held);
	}
	kfree(held);
	if (error) {
		kfree(group);
		return error;
	}
	group->count = count;
	for (i = 0; i < count; i++) {
		sites[i]->group = group;
		sites[i]->state = ILK_ACTIVE;
	}
	return 0;
}

/* A part of a group gets ops of its own, alike but for its functions; the group goes on without. */
static struct ilk_fentries *split(struct ilk_fentries *group, struct ilk_site **sites, u32 count)
{
	struct ilk_fentries *part = kzalloc(sizeof(*part), GFP_KERNEL | __GFP_NOFAIL);

	WARN_ON_ONCE(filter(&group->ops, sites, count, 1));
	group->count -= count;
	part->count = count;
	part->ops.func = group->ops.func;
	part->ops.trampoline = group->ops.trampoline;
	part->ops.flags = FTRACE_OPS_FL_DIRECT | FTRACE_OPS_FL_SAVE_REGS;
	WARN_ON_ONCE(filter(&part->ops, sites, count, 0));
	WARN_ON_ONCE(register_ftrace_function(&part->ops));
	return part;
}

static int detach(struct ilk_fentries *group, struct ilk_site **sites, u32 count)
{
	struct ftrace_ops *held = kzalloc(sizeof(*held), GFP_KERNEL | __GFP_NOFAIL);
	int error = hold(held, sites, count);
	u32 i;

	if (error) {
		kfree(held);
		return error;
	}
	if (count < group->count)
		group = split(group, sites, count);
	lead(sites, count, true);
	unregister_ftrace_direct_multi(&group->ops, (unsigned long)ilk_fentry_idle);
	let_go(held);
	kfree(held);
	ftrace_free_filter(&group->ops);
	kfree(group);
	for (i = 0; i < count; i++)
		sites[i]->state = ILK_NEW;
	return 0;
}

static u32 pick_new(struct ilk_site **from, u32 count, struct ilk_site **to)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++) {
		if (from[i]->kind != ILK_FENTRY || from[i]->status != ILK_OK)
			continue;
		if (ilk_kernel.ftrace_find_rec_direct(from[i]->address)) {
			from[i]->status = ILK_NO_FENTRY;
			from[i]->detail = EBUSY;
			continue;
		}
		to[n++] = from[i];
	}
	return n;
}

static u32 pick_group(struct ilk_site **from, u32 count, struct ilk_site **to)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++)
		if (from[i]->kind == ILK_FENTRY && from[i]->status == ILK_OK &&
		    from[i]->state == ILK_ACTIVE && (!n || from[i]->group == to[0]->group))
			to[n++] = from[i];
	return n;
}

static void fail(struct ilk_site **sites, u32 count, u32 status, int error)
{
	u32 i;

	for (i = 0; i < count; i++) {
		sites[i]->status = status;
		sites[i]->detail = -error;
	}
}

/* Those of `sites` that are FENTRY and well; all or none of them. */
void ilk_fentry_attach(struct ilk_site **sites, u32 count)
{
	struct ilk_site **some = kvcalloc(count, sizeof(*some), GFP_KERNEL | __GFP_NOFAIL);
	u32 n = pick_new(sites, count, some);
	int error = n ? attach(some, n) : 0;

	if (error)
		fail(some, n, ILK_NO_FENTRY, error);
	kvfree(some);
}

/* Those of `sites` that are FENTRY, in force and well. */
void ilk_fentry_detach(struct ilk_site **sites, u32 count)
{
	struct ilk_site **some = kvcalloc(count, sizeof(*some), GFP_KERNEL | __GFP_NOFAIL);
	u32 n;

	while ((n = pick_group(sites, count, some))) {
		int error = detach(some[0]->group, some, n);

		if (error)
			fail(some, n, ILK_BUSY, error);
	}
	kvfree(some);
}
