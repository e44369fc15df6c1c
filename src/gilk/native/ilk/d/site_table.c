// SPDX-License-Identifier: GPL-2.0
/*
 * The table of all sites, by number; those in force are also found by their addresses, by any client.
 *
 * The table is allocated for the first site, and stays until the driver is unloaded. Code at a hit reads it without a
 * lock: an entry that a patch has the number of is in use.
 */
#include <linux/hashtable.h>
#include <linux/vmalloc.h>

#include "d.h"

struct ilk_d_site *ilk_d_sites;
u32 ilk_d_sites_end;

static DEFINE_HASHTABLE(in_force, 14);

static bool is_allocated(void)
{
	if (!ilk_d_sites)
		ilk_d_sites = vzalloc(ILK_D_SITES_MAX * sizeof(*ilk_d_sites));
	return ilk_d_sites;
}

void ilk_d_sites_exit(void)
{
	vfree(ilk_d_sites);
}

/* The number of the first of `count` consecutive free sites; 0: there are none. */
static u32 find_free(u32 count)
{
	u32 i, run = 0;

	for (i = 1; i < ILK_D_SITES_MAX; i++) {
		run = ilk_d_sites[i].client ? 0 : run + 1;
		if (run == count)
			return i - count + 1;
	}
	return 0;
}

int ilk_d_sites_create(struct ilk_client *client, struct ilk_d_sites *m)
{
	u32 first, i;

	if (!m->count || m->count >= ILK_D_SITES_MAX)
		return -E2BIG;
	if (!is_allocated())
		return -ENOMEM;
	first = find_free(m->count);
	if (!first)
		return -ENOSPC;
	for (i = 0; i < m->count; i++)
		ilk_d_sites[first + i] = (struct ilk_d_site){ .client = client };
	WRITE_ONCE(ilk_d_sites_end, max(ilk_d_sites_end, first + m->count));
	m->first = first;
	return 0;
}

/* Free the client's sites. No patch has their numbers any more. */
void ilk_d_sites_free(struct ilk_client *client)
{
	u32 i, end = 0;

	for (i = 0; i < ilk_d_sites_end; i++) {
		if (ilk_d_sites[i].client == client) {
			hash_del(&ilk_d_sites[i].by_address);
			ilk_d_sites[i] = (struct ilk_d_site){ .client = NULL };
		} else if (ilk_d_sites[i].client) {
			end = i + 1;
		}
	}
	WRITE_ONCE(ilk_d_sites_end, end);
}

int ilk_d_find(struct ilk_client *client, struct ilk_d_find *m)
{
	struct ilk_d_site *site;

	m->site = 0;
	hash_for_each_possible(in_force, site, by_address, m->address)
		if (site->address == m->address && site->kind == m->kind)
			m->site = site - ilk_d_sites;
	return 0;
}

int ilk_d_force(struct ilk_client *client, struct ilk_d_force *m, u32 size)
{
	u32 i;

	if (m->count > (size - sizeof(*m)) / sizeof(m->site[0]))
		return -EINVAL;
	for (i = 0; i < m->count; i++)
		if (m->site[i] >= ilk_d_sites_end || ilk_d_sites[m->site[i]].client != client)
			return -EINVAL;
	for (i = 0; i < m->count; i++) {
		struct ilk_d_site *site = &ilk_d_sites[m->site[i]];

		if (!ilk_d_in_force(site))
			hash_add(in_force, &site->by_address, site->address);
	}
	return 0;
}

/* Take the client's sites out of force before its units are undone. False: another client is attached to one. */
bool ilk_d_unforce(const struct ilk_client *client)
{
	u32 i;

	if (ilk_d_shared(client))
		return false;
	for (i = 0; i < ilk_d_sites_end; i++)
		if (ilk_d_sites[i].client == client)
			hash_del(&ilk_d_sites[i].by_address);
	return true;
}

/*
 * The code between the addresses is unloaded, with the patches in it: no client finds these sites any more, even if
 * other code comes to lie there.
 */
void ilk_d_sites_gone(unsigned long start, unsigned long end)
{
	u32 i;

	for (i = 0; i < ilk_d_sites_end; i++)
		if (ilk_d_sites[i].address >= start && ilk_d_sites[i].address < end)
			hash_del(&ilk_d_sites[i].by_address);
}
