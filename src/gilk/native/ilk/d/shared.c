// SPDX-License-Identifier: GPL-2.0
/* Sites that programs of several clients use, and the original text under all splices. */
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "d.h"

/* How many attachments programs of other clients have at the client's sites. */
u32 ilk_d_shared(const struct ilk_client *client)
{
	const struct ilk_attached *each;
	u32 i, count = 0;

	for (i = 0; i < ILK_D_SITES_MAX; i++) {
		if (ilk_d_sites[i].client != client)
			continue;
		for (each = rcu_dereference_protected(ilk_d_sites[i].first, true); each;
		     each = rcu_dereference_protected(each->next, true))
			count += each->program != client->program;
	}
	return count;
}

int ilk_d_find(struct ilk_client *client, struct ilk_d_find *m)
{
	u32 i;

	m->site = 0;
	for (i = 1; i < ILK_D_SITES_MAX && !m->site; i++)
		if (ilk_d_sites[i].client && ilk_d_sites[i].in_force && ilk_d_sites[i].address == m->address && ilk_d_sites[i].kind == m->kind)
			m->site = i;
	return 0;
}

int ilk_d_force(struct ilk_client *client, struct ilk_d_force *m, u32 size)
{
	u32 i;

	if (m->count > (size - sizeof(*m)) / sizeof(m->site[0]))
		return -EINVAL;
	for (i = 0; i < m->count; i++)
		if (m->site[i] >= ILK_D_SITES_MAX || ilk_d_sites[m->site[i]].client != client)
			return -EINVAL;
	for (i = 0; i < m->count; i++)
		ilk_d_sites[m->site[i]].in_force = true;
	return 0;
}

/* Take the client's sites out of force before its units are undone. False: another client is attached to one. */
bool ilk_d_unforce(const struct ilk_client *client)
{
	u32 i;

	if (ilk_d_shared(client))
		return false;
	for (i = 0; i < ILK_D_SITES_MAX; i++)
		if (ilk_d_sites[i].client == client)
			ilk_d_sites[i].in_force = false;
	return true;
}

static void add_originals(struct ilk_d_originals *m, struct ilk_client *client, bool pads)
{
	struct ilk_site *unit;
	unsigned long id;

	xa_for_each(&client->units, id, unit) {
		struct ilk_d_original *to = &m->original[m->count];

		if ((unit->kind == ILK_PAD) != pads || unit->kind == ILK_FENTRY || unit->state == ILK_LEFT)
			continue;
		if (m->count++ >= m->room)
			continue;
		*to = (struct ilk_d_original){ .address = unit->address, .length = unit->length };
		memcpy(to->bytes, unit->old, sizeof(to->bytes));
	}
}

int ilk_d_originals(struct ilk_client *client, struct ilk_d_originals *m, u32 size)
{
	struct ilk_client *each;

	if (m->room > (size - sizeof(*m)) / sizeof(m->original[0]))
		return -EINVAL;
	m->count = 0;
	list_for_each_entry(each, &ilk_clients, list)
		add_originals(m, each, true);
	list_for_each_entry(each, &ilk_clients, list)
		add_originals(m, each, false);
	return m->count > m->room ? -ENOSPC : 0;
}
