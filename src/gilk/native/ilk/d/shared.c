// SPDX-License-Identifier: GPL-2.0
/* How many programs of other clients use sites of one, and the original text under all splices. */
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

	for (i = 0; i < ilk_d_sites_end; i++) {
		if (ilk_d_sites[i].client != client)
			continue;
		for (each = rcu_dereference_protected(ilk_d_sites[i].first, true); each;
		     each = rcu_dereference_protected(each->next, true))
			count += each->program != client->program;
	}
	return count;
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
