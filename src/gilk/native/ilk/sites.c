// SPDX-License-Identifier: GPL-2.0
/*
 * The set of all units: by address, so that no two overlap; by address again
 * for the trap handler, which can take no lock; by id, in their client.
 */
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/insn.h>

#include "ilk.h"

static struct rb_root by_address = RB_ROOT;
static DEFINE_HASHTABLE(by_trap, 14);

static unsigned long end_of(const struct ilk_site *site)
{
	return site->address + site->length;
}

/* The first site that ends behind `address`. */
struct ilk_site *ilk_site_next(unsigned long address)
{
	struct rb_node *node = by_address.rb_node;
	struct ilk_site *found = NULL;

	while (node) {
		struct ilk_site *site = rb_entry(node, struct ilk_site, node);

		if (end_of(site) > address) {
			found = site;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return found;
}

/* The next one by address. */
struct ilk_site *ilk_site_after(const struct ilk_site *site)
{
	return rb_entry_safe(rb_next(&site->node), struct ilk_site, node);
}

static struct ilk_site *overlapping(unsigned long start, unsigned long end)
{
	struct ilk_site *site = ilk_site_next(start);

	return site && site->address < end ? site : NULL;
}

static void insert(struct ilk_site *new)
{
	struct rb_node **link = &by_address.rb_node, *parent = NULL;

	while (*link) {
		struct ilk_site *site = rb_entry(*link, struct ilk_site, node);

		parent = *link;
		link = new->address < site->address ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&new->node, parent, link);
	rb_insert_color(&new->node, &by_address);
}

/* Nothing in here faults or is traced: it runs in the trap handler. */
struct ilk_site *ilk_site_trapped(unsigned long address)
{
	struct ilk_site *site;

	hash_for_each_possible_rcu_notrace(by_trap, site, hash, address)
		if (site->address == address)
			return site;
	return NULL;
}

static bool frees_bytes(const struct ilk_site *host)
{
	return host->kind == ILK_SINGLE || host->kind == ILK_MULTI;
}

static bool idle(const u8 *bytes, u32 length)
{
	struct insn insn;
	u32 i;

	for (i = 0; i < length && (bytes[i] == 0x90 || bytes[i] == 0xcc); i++)
		;
	if (i == length)
		return true;
	if (ilk_kernel.insn_decode(&insn, bytes, length, INSN_MODE_KERN) || insn.length != length)
		return false;
	return insn.opcode.bytes[0] == 0x0f && insn.opcode.bytes[1] == 0x1f;
}

static u32 place_in_host(struct ilk_site *site, struct ilk_site *host)
{
	struct ilk_site *other;

	if (host->client != site->client || !frees_bytes(host))
		return ILK_OVERLAP;
	if (site->address < host->address + 5 || end_of(site) > end_of(host))
		return ILK_OVERLAP;
	list_for_each_entry(other, &host->guests, guest)
		if (site->address < end_of(other) && other->address < end_of(site))
			return ILK_OVERLAP;
	if (memcmp(site->old, host->new + (site->address - host->address), site->length))
		return ILK_STALE;
	list_add(&site->guest, &host->guests);
	site->host = host;
	return ILK_OK;
}

static u32 place(struct ilk_site *site, u64 *detail)
{
	struct ilk_site *other = overlapping(site->address, end_of(site));
	u32 status;

	if (other) {
		*detail = other->address;
		if (site->kind != ILK_PAD)
			return ILK_OVERLAP;
		status = place_in_host(site, other);
		if (status == ILK_OK)
			*detail = 0;
		return status;
	}
	if (site->kind == ILK_PAD && !idle(site->old, site->length))
		return ILK_BAD_PAD;
	insert(site);
	return ILK_OK;
}

static void unplace(struct ilk_site *site)
{
	if (site->host)
		list_del(&site->guest);
	else
		rb_erase(&site->node, &by_address);
}

static u32 find_pad(struct ilk_site *site, u32 id)
{
	struct ilk_site *pad = xa_load(&site->client->units, id);

	if (!pad || pad->kind != ILK_PAD || pad->patch != site->patch || pad->state == ILK_LEFT)
		return ILK_BAD_PAD;
	if (site->address + 2 + (s8)site->new[1] != pad->address)
		return ILK_BAD_BYTES;
	site->pad = pad;
	return ILK_OK;
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
	struct ilk_client *client = site->client;
	u32 status;

	if (client->nr_units >= ILK_UNITS_MAX)
		return ILK_LIMIT;
	if (xa_load(&client->units, site->id))
		return ILK_DUPLICATE;
	status = site->kind == ILK_SHORT ? find_pad(site, unit->pad) : ILK_OK;
	if (status == ILK_OK)
		status = place(site, detail);
	if (status != ILK_OK)
		return status;
	status = ilk_verify(site, detail);
	if (status == ILK_OK && xa_err(xa_store(&client->units, site->id, site, GFP_KERNEL)))
		status = ILK_NO_MEMORY;
	if (status != ILK_OK)
		unplace(site);
	return status;
}

/* A unit that may be written. Its place is taken from now on, its text is untouched. */
u32 ilk_site_create(struct ilk_client *client, const struct ilk_unit *unit,
		    struct ilk_site **result, u64 *detail)
{
	u32 status = ilk_shape(client, unit);
	struct ilk_site *site;

	if (status != ILK_OK)
		return status;
	site = from_unit(client, unit);
	if (!site)
		return ILK_NO_MEMORY;
	status = enter(site, unit, detail);
	if (status != ILK_OK) {
		kfree(site);
		return status;
	}
	if (site->pad)
		site->pad->users++;
	client->nr_units++;
	hash_add_rcu(by_trap, &site->hash, site->address);
	*result = site;
	return ILK_OK;
}

/* Its module goes away; its client still knows it by id. */
void ilk_site_leave(struct ilk_site *site)
{
	unplace(site);
	hash_del_rcu(&site->hash);
	site->state = ILK_LEFT;
}

static void unlink_site(struct ilk_site *site)
{
	if (site->pad)
		site->pad->users--;
	if (site->state != ILK_LEFT)
		unplace(site);
	xa_erase(&site->client->units, site->id);
	site->client->nr_units--;
	hash_del_rcu(&site->hash);
}

/* Their text is as it was, and nobody is in their patches; NULLs are skipped. A trap handler may still see one: hence the wait. */
void ilk_sites_forget(struct ilk_site **sites, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (sites[i])
			unlink_site(sites[i]);
	synchronize_rcu_expedited();
	for (i = 0; i < count; i++) {
		if (sites[i])
			kfree(sites[i]->entry);
		kfree(sites[i]);
	}
}
