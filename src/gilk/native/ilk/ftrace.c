// SPDX-License-Identifier: GPL-2.0
/*
 * The fentry nops of functions belong to ftrace, which turns each into a call of our patch, and knows who else traces
 * the function.
 *
 * ftrace's interface takes one address for many functions, or one function at a time, at a tenth of a second each; and
 * it is not safe where others trace the same functions (direct.c). So all functions of a client form one group, which
 * is registered as that interface would do it; the table of direct calls has the patch of each already. Functions join
 * the group, and are taken out of it, by its filter. There is one group, since to unregister one waits until each task
 * has slept or left the kernel, which takes seconds on a busy machine.
 */
#include <linux/ftrace.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "ilk.h"

struct ilk_fentries {
	struct ftrace_ops ops;
	u32 count;
};

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

static int enlist(struct ilk_fentries *group, struct ilk_site **sites, u32 count)
{
	int error = filter(&group->ops, sites, count, 0);

	return error ? error : register_ftrace_function(&group->ops);
}

/* Make the client's group, of these sites, whose direct calls ftrace knows. */
static int found(struct ilk_client *client, struct ilk_site **sites, u32 count)
{
	struct ilk_fentries *group = kzalloc(sizeof(*group), GFP_KERNEL);
	int error;

	if (!group)
		return -ENOMEM;
	group->ops.func = ilk_kernel.call_direct_funcs;
	group->ops.trampoline = (unsigned long)ilk_kernel.ftrace_regs_caller;
	group->ops.flags = FTRACE_OPS_FL_DIRECT | FTRACE_OPS_FL_SAVE_REGS;
	error = enlist(group, sites, count);
	if (error) {
		ftrace_free_filter(&group->ops);
		kfree(group);
		return error;
	}
	client->fentries = group;
	return 0;
}

static int attach(struct ilk_client *client, struct ilk_site **sites, u32 count)
{
	int error = ilk_direct_add(sites, count);
	u32 i;

	if (error)
		return error;
	error = client->fentries ? filter(&client->fentries->ops, sites, count, 0) :
				   found(client, sites, count);
	if (error) {
		ilk_direct_remove(sites, count);
		return error;
	}
	client->fentries->count += count;
	for (i = 0; i < count; i++)
		sites[i]->state = ILK_ACTIVE;
	return 0;
}

/* Unregister the client's group. This waits for all CPUs that are in ftrace's part of a call. */
static int dissolve(struct ilk_client *client)
{
	struct ilk_fentries *group = client->fentries;
	int error = unregister_ftrace_function(&group->ops);

	if (error)
		return error;
	client->fentries = NULL;
	ftrace_free_filter(&group->ops);
	kfree(group);
	return 0;
}

static int detach(struct ilk_client *client, struct ilk_site **sites, u32 count)
{
	struct ilk_fentries *group = client->fentries;
	u32 i, left = group->count - count;
	int error = left ? filter(&group->ops, sites, count, 1) : dissolve(client);

	if (error)
		return error;
	if (left)
		group->count = left;
	ilk_direct_remove(sites, count);
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
		if (ilk_direct_taken(from[i])) {
			from[i]->status = ILK_NO_FENTRY;
			from[i]->detail = EBUSY;
			continue;
		}
		to[n++] = from[i];
	}
	return n;
}

/* Pick those in force of one client: the sites of a module that goes are of several. */
static u32 pick_group(struct ilk_site **from, u32 count, struct ilk_site **to)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++)
		if (from[i]->kind == ILK_FENTRY && from[i]->status == ILK_OK &&
		    from[i]->state == ILK_ACTIVE && (!n || from[i]->client == to[0]->client))
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

/* Attach the `sites` that are FENTRY and well: all or none of them. */
void ilk_fentry_attach(struct ilk_site **sites, u32 count)
{
	struct ilk_site **some = kvcalloc(count, sizeof(*some), GFP_KERNEL | __GFP_NOFAIL);
	u32 n = pick_new(sites, count, some);
	int error = n ? attach(some[0]->client, some, n) : 0;

	if (error)
		fail(some, n, ILK_NO_FENTRY, error);
	kvfree(some);
}

/* Detach the `sites` that are FENTRY, in force and well. */
void ilk_fentry_detach(struct ilk_site **sites, u32 count)
{
	struct ilk_site **some = kvcalloc(count, sizeof(*some), GFP_KERNEL | __GFP_NOFAIL);
	u32 n;

	while ((n = pick_group(sites, count, some))) {
		int error = detach(some[0]->client, some, n);

		if (error)
			fail(some, n, ILK_BUSY, error);
	}
	kvfree(some);
}
