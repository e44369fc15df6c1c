// SPDX-License-Identifier: GPL-2.0
/*
 * The set of all sites: in a tree by address, so that no two overlap; in a hash table by address for the trap handler,
 * which can take no lock; and by id, in their client.
 */
#include <linux/kprobes.h>
#include <linux/rculist.h>
#include <linux/slab.h>

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

/* The site at an address. It runs in the trap handler, so nothing in it may fault or be traced. */
struct ilk_site *ilk_site_trapped(unsigned long address)
{
	struct ilk_site *site;

	hash_for_each_possible_rcu_notrace(by_trap, site, hash, address)
		if (site->address == address)
			return site;
	return NULL;
}
NOKPROBE_SYMBOL(ilk_site_trapped);

/* Insert the site into the tree, or among the guests of its host. */
void ilk_site_insert(struct ilk_site *site)
{
	if (site->host)
		list_add(&site->guest, &site->host->guests);
	else
		insert(site);
}

void ilk_site_remove(struct ilk_site *site)
{
	if (site->host)
		list_del(&site->guest);
	else
		rb_erase(&site->node, &by_address);
}

/* Make an inserted site known to its client by id, and to the trap handler by address. False: no memory. */
bool ilk_site_add(struct ilk_site *site)
{
	if (xa_err(xa_store(&site->client->units, site->id, site, GFP_KERNEL)))
		return false;
	if (site->pad)
		site->pad->users++;
	site->client->nr_units++;
	hash_add_rcu(by_trap, &site->hash, site->address);
	return true;
}

/* Remove a site whose module is unloaded; its client still knows it by id. */
void ilk_site_leave(struct ilk_site *site)
{
	ilk_site_remove(site);
	hash_del_rcu(&site->hash);
	site->state = ILK_LEFT;
}

static void unlink_site(struct ilk_site *site)
{
	if (site->pad)
		site->pad->users--;
	if (site->state != ILK_LEFT)
		ilk_site_remove(site);
	xa_erase(&site->client->units, site->id);
	site->client->nr_units--;
	hash_del_rcu(&site->hash);
}

/*
 * Free sites whose text is restored and whose patches no task is in; NULLs are skipped. Waits for trap handlers that
 * see one.
 */
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
