// SPDX-License-Identifier: GPL-2.0
/*
 * Apply a batch of units. A unit becomes a site if its fields make sense (validate.c), no other unit overlaps it
 * (place.c), and the kernel does not own the place (verify.c). Then all sites are written, in an order that is safe:
 *
 *	int3 over the windows of several instructions	live at once, by trap
 *	jumps over single instructions			no CPU can be inside of one
 *	both grace periods				now no CPU is inside of a window either
 *	jumps over the windows of several instructions
 *	the bytes that have become free			nops, and then pads among them
 *	short jumps to pads
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "ilk.h"

static bool is_trapped_first(const struct ilk_site *site)
{
	return site->kind == ILK_TRAP || site->kind == ILK_MULTI || site->flags & ILK_SEVERAL;
}

static bool is_single(const struct ilk_site *site)
{
	return site->kind == ILK_SINGLE;
}

static bool is_multi(const struct ilk_site *site)
{
	return site->kind == ILK_MULTI;
}

static bool is_pad(const struct ilk_site *site)
{
	return site->kind == ILK_PAD;
}

static bool is_short(const struct ilk_site *site)
{
	return site->kind == ILK_SHORT;
}

static bool is_host(const struct ilk_site *site)
{
	return is_single(site) || is_multi(site);
}

static bool needs_grace(struct ilk_site **sites, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (sites[i]->status == ILK_OK && is_trapped_first(sites[i]) &&
		    sites[i]->kind != ILK_TRAP)
			return true;
	return false;
}

static void write_all(struct ilk_site **sites, u32 count)
{
	ilk_poke_all(sites, count, is_trapped_first, ilk_poke_trap);
	ilk_poke_all(sites, count, is_single, ilk_poke_front);
	if (needs_grace(sites, count))
		ilk_grace(ILK_BEFORE_JUMP);
	ilk_poke_all(sites, count, is_multi, ilk_poke_front);
	ilk_poke_all(sites, count, is_host, ilk_poke_rest);
	ilk_poke_all(sites, count, is_pad, ilk_poke_pad);
	ilk_poke_all(sites, count, is_short, ilk_poke_front);
	ilk_poke_all(sites, count, is_short, ilk_poke_rest);
}

static int ascending(const void *left, const void *right)
{
	const struct ilk_site *a = *(struct ilk_site *const *)left;
	const struct ilk_site *b = *(struct ilk_site *const *)right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static struct ilk_site *from_unit(struct ilk_client *client, const struct ilk_unit *unit)
{
	struct ilk_site *site = kzalloc(sizeof(*site), GFP_KERNEL);

	if (!site)
		return NULL;
	INIT_LIST_HEAD(&site->guests);
	INIT_LIST_HEAD(&site->guest);
	site->client = client;
	site->address = unit->address;
	site->patch = unit->patch;
	site->copy = unit->copy;
	site->id = unit->id;
	site->kind = unit->kind;
	site->length = unit->length;
	site->flags = unit->flags;
	memcpy(site->old, unit->old, ILK_WINDOW);
	memcpy(site->new, unit->new, ILK_WINDOW);
	return site;
}

static u32 enter(struct ilk_site *site, const struct ilk_unit *unit, u64 *detail)
{
	u32 status = ILK_OK;

	if (site->client->nr_units >= ILK_UNITS_MAX)
		return ILK_LIMIT;
	if (xa_load(&site->client->units, site->id))
		return ILK_DUPLICATE;
	if (site->kind == ILK_SHORT)
		status = ilk_place_pad(site, unit->pad);
	if (status == ILK_OK)
		status = ilk_place(site, detail);
	if (status != ILK_OK)
		return status;
	ilk_site_insert(site);
	status = ilk_verify(site, detail);
	if (status == ILK_OK && !ilk_site_add(site))
		status = ILK_NO_MEMORY;
	if (status != ILK_OK)
		ilk_site_remove(site);
	return status;
}

/* Create the site of a unit that may be written. It occupies its place from now on; the text is not changed yet. */
static u32 create(struct ilk_client *client, const struct ilk_unit *unit, struct ilk_site **result,
		  u64 *detail)
{
	u32 status = ilk_validate(client, unit);
	struct ilk_site *site;

	if (status != ILK_OK)
		return status;
	site = from_unit(client, unit);
	if (!site)
		return ILK_NO_MEMORY;
	status = enter(site, unit, detail);
	if (status == ILK_OK)
		*result = site;
	else
		kfree(site);
	return status;
}

/* Create the sites of all units. Returns how many there are; -EINTR: the client was killed. */
static int create_all(struct ilk_client *client, struct ilk_unit *units, u32 count,
		      struct ilk_site **made)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		units[i].detail = 0;
		units[i].status = create(client, &units[i], &made[i], &units[i].detail);
		if (units[i].status == ILK_OK)
			n++;
		cond_resched();
	}
	return n;
}

/*
 * Set the status of each unit. A site whose first byte somebody else has overwritten is kept: its patch may still be
 * entered.
 */
static u32 report(struct ilk_unit *units, u32 count, struct ilk_site **made)
{
	u32 i, applied = 0;

	for (i = 0; i < count; i++) {
		if (!made[i])
			continue;
		units[i].status = made[i]->status;
		units[i].detail = made[i]->detail;
		applied += units[i].status == ILK_OK;
		if (units[i].status == ILK_OK || units[i].status == ILK_BUSY)
			made[i] = NULL;
	}
	return applied;
}

/*
 * Returns how many units were applied; each unit has its status. Without memory none is: ILK_NO_MEMORY.
 * -EINTR: the client was killed before anything was written; all sites are removed again.
 */
int ilk_apply(struct ilk_client *client, struct ilk_unit *units, u32 count)
{
	struct ilk_site **made = kvcalloc(2 * (size_t)count, sizeof(*made), GFP_KERNEL);
	struct ilk_site **sorted = made + count;
	u32 i, applied;
	int n;

	if (!made) {
		for (i = 0; i < count; i++)
			units[i].status = ILK_NO_MEMORY;
		return 0;
	}
	ilk_branch_targets_forget();
	ilk_xrefs_forget();
	n = create_all(client, units, count, made);
	if (n < 0) {
		ilk_sites_forget(made, count);
		kvfree(made);
		return n;
	}
	for (i = 0, n = 0; i < count; i++)
		if (made[i])
			sorted[n++] = made[i];
	sort(sorted, n, sizeof(*sorted), ascending, NULL);
	write_all(sorted, n);
	ilk_fentry_attach(sorted, n);
	applied = report(units, count, made);
	if (applied < n)
		ilk_grace(ILK_BEFORE_FREE); /* a site that was given up again was live by its trap */
	if (applied < n)
		ilk_sites_forget(made, count);
	kvfree(made);
	ilk_batches += n != 0;
	return applied;
}
