// SPDX-License-Identifier: GPL-2.0
/*
 * Restores the original text, in an order that is safe:
 *
 *	all sites but pads and the hosts of pads
 *	both grace periods			now no task is in their patches, or in a pad
 *	pads, then hosts; both grace periods	if there are any
 *
 * A site whose bytes somebody else has changed is BUSY: it stays, with its patch.
 */
#include <linux/mm.h>
#include <linux/string.h>

#include "ilk.h"

static bool is_host(const struct ilk_site *site)
{
	return !list_empty(&site->guests);
}

static bool goes_first(const struct ilk_site *site)
{
	return site->kind != ILK_PAD && site->kind != ILK_FENTRY && !is_host(site);
}

static bool is_pad(const struct ilk_site *site)
{
	return site->kind == ILK_PAD;
}

static u32 choose(struct ilk_site *site, struct ilk_site **chosen, u32 n)
{
	site->chosen = true;
	site->leaving = 0;
	site->status = site->state == ILK_LEFT ? ILK_GONE : ILK_OK;
	chosen[n] = site;
	return n + 1;
}

static void count_leaving(struct ilk_site **sites, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (sites[i]->pad && (sites[i]->status == ILK_OK || sites[i]->status == ILK_GONE))
			sites[i]->pad->leaving++;
}

static bool guest_stays(const struct ilk_site *host)
{
	const struct ilk_site *guest;

	list_for_each_entry(guest, &host->guests, guest)
		if (!guest->chosen || guest->status != ILK_OK)
			return true;
	return false;
}

static void hold_back(struct ilk_site **sites, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		sites[i]->leaving = 0;
		cond_resched();
	}
	count_leaving(sites, count);
	for (i = 0; i < count; i++)
		if (is_pad(sites[i]) && sites[i]->status == ILK_OK &&
		    sites[i]->leaving < sites[i]->users)
			sites[i]->status = ILK_IN_USE;
	for (i = 0; i < count; i++)
		if (is_host(sites[i]) && sites[i]->status == ILK_OK && guest_stays(sites[i]))
			sites[i]->status = ILK_IN_USE;
}

static bool second_round(struct ilk_site **sites, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (sites[i]->status == ILK_OK && (is_pad(sites[i]) || is_host(sites[i])))
			return true;
	return false;
}

static void restore_all(struct ilk_site **sites, u32 count)
{
	hold_back(sites, count);
	ilk_fentry_detach(sites, count);
	ilk_poke_all(sites, count, goes_first, ilk_poke_back);
	ilk_grace(ILK_BEFORE_FREE);
	hold_back(sites, count); /* the pads of busy SHORTs have to stay */
	if (!second_round(sites, count))
		return;
	ilk_poke_all(sites, count, is_pad, ilk_poke_back);
	hold_back(sites, count);
	ilk_poke_all(sites, count, is_host, ilk_poke_back);
	ilk_grace(ILK_BEFORE_FREE);
}

/* Forget the `sites` whose text is restored. Returns how many there were. */
static u32 finish(struct ilk_site **sites, u32 count)
{
	u32 i, undone = 0;

	for (i = 0; i < count; i++) {
		u32 status = sites[i]->status;

		sites[i]->chosen = false;
		sites[i]->leaving = 0;
		if (status != ILK_OK && status != ILK_GONE)
			sites[i] = NULL;
		undone += status == ILK_OK;
	}
	ilk_sites_forget(sites, count);
	ilk_batches += undone != 0;
	return undone;
}

static u32 choose_named(struct ilk_client *client, struct ilk_result *results, u32 count,
			struct ilk_site **sites)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++) {
		struct ilk_site *site = xa_load(&client->units, results[i].id);

		results[i].status = ILK_UNKNOWN;
		if (!site || site->chosen)
			continue;
		n = choose(site, sites, n);
		results[i].status = ILK_OK;
	}
	return n;
}

static void report(struct ilk_result *results, u32 count, struct ilk_site **sites)
{
	u32 i, n = 0;

	for (i = 0; i < count; i++)
		if (results[i].status == ILK_OK)
			results[i].status = sites[n++]->status;
}

/* Returns how many units were undone; each result has its status. */
u32 ilk_undo(struct ilk_client *client, struct ilk_result *results, u32 count)
{
	struct ilk_site **sites = kvcalloc(count, sizeof(*sites), GFP_KERNEL);
	u32 i, n, undone;

	if (!sites) {
		for (i = 0; i < count; i++)
			results[i].status = ILK_NO_MEMORY;
		return 0;
	}
	n = choose_named(client, results, count, sites);
	restore_all(sites, n);
	report(results, count, sites);
	undone = finish(sites, n);
	kvfree(sites);
	return undone;
}

/* Undo all units of the client. True: none is left. It waits for memory, since it must not fail. */
bool ilk_undo_all(struct ilk_client *client)
{
	u32 n = 0, room = max(client->nr_units, 1u);
	struct ilk_site **sites = kvcalloc(room, sizeof(*sites), GFP_KERNEL | __GFP_NOFAIL);
	struct ilk_site *site;
	unsigned long id;

	xa_for_each(&client->units, id, site)
		n = choose(site, sites, n);
	if (n) {
		restore_all(sites, n);
		finish(sites, n);
	}
	kvfree(sites);
	return !client->nr_units;
}

static void detach_between(unsigned long start, unsigned long end)
{
	struct ilk_site **sites, *site;
	u32 n = 0, room = 0;

	for (site = ilk_site_next(start); site && site->address < end; site = ilk_site_after(site))
		room++;
	sites = kvcalloc(room + 1, sizeof(*sites), GFP_KERNEL | __GFP_NOFAIL);
	for (site = ilk_site_next(start); site && site->address < end;
	     site = ilk_site_after(site)) {
		site->status = ILK_OK;
		sites[n++] = site;
	}
	ilk_fentry_detach(sites, n);
	kvfree(sites);
}

static void back_now(struct ilk_site *site)
{
	ilk_text_lock();
	ilk_poke_back(site);
	ilk_text_unlock();
	ilk_site_leave(site);
}

/*
 * Undo the units of a module that is unloaded: its exit function has run, and no task is in its text, nor so in our
 * patches for it; no wait is needed. Pads lie at the same module's functions; guests are removed before their hosts.
 */
void ilk_undo_module(unsigned long start, unsigned long end)
{
	struct ilk_site *site, *guest, *next;

	detach_between(start, end);
	while ((site = ilk_site_next(start)) && site->address < end) {
		list_for_each_entry_safe(guest, next, &site->guests, guest)
			back_now(guest);
		back_now(site);
	}
}
