// SPDX-License-Identifier: GPL-2.0
/*
 * Ftrace's hash table of direct calls: which function calls which trampoline.
 *
 * If another tracer traces such a function too, each call of it looks the table up, without a lock, also in interrupts.
 * The kernel's own functions that change the table do not wait for such readers: they free an entry as soon as it is
 * removed, and when the table grows they move its entries while the old one is still in use. The first crashes
 * machines, the second loses calls. So this file adds and removes the entries for our functions, under ftrace's own
 * locks, and frees what it has removed only after a grace period.
 */
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/slab.h>

#include "ilk.h"

#define LEAST_BITS 5 /* as the kernel's own */
#define MOST_BITS 16

static void lock(void)
{
	mutex_lock(ilk_kernel.direct_mutex);
	mutex_lock(ilk_kernel.ftrace_lock);
}

static void unlock(void)
{
	mutex_unlock(ilk_kernel.ftrace_lock);
	mutex_unlock(ilk_kernel.direct_mutex);
}

static struct ftrace_hash *table(void)
{
	return *ilk_kernel.direct_functions;
}

static void put(struct ftrace_hash *into, struct ftrace_func_entry *entry)
{
	u32 at = into->size_bits ? hash_long(entry->ip, into->size_bits) : 0;

	hlist_add_head_rcu(&entry->hlist, &into->buckets[at]);
	into->count++;
}

static void free_table(struct ftrace_hash *old)
{
	struct ftrace_func_entry *entry;
	struct hlist_node *next;
	u32 i;

	for (i = 0; i < 1u << old->size_bits; i++)
		hlist_for_each_entry_safe(entry, next, &old->buckets[i], hlist)
			kfree(entry);
	kfree(old->buckets);
	kfree(old);
}

/* Allocate a table in memory that the kernel itself can free, since it may let the table grow later. */
static struct ftrace_hash *new_table(u32 bits)
{
	struct ftrace_hash *new = kzalloc(sizeof(*new), GFP_KERNEL);

	if (!new)
		return NULL;
	new->size_bits = bits;
	new->buckets = kcalloc(1u << bits, sizeof(*new->buckets), GFP_KERNEL);
	if (new->buckets)
		return new;
	kfree(new);
	return NULL;
}

static bool copy_all(struct ftrace_hash *into, const struct ftrace_hash *from)
{
	struct ftrace_func_entry *entry, *copy;
	u32 i;

	for (i = 0; i < 1u << from->size_bits; i++)
		hlist_for_each_entry(entry, &from->buckets[i], hlist) {
			copy = kmemdup(entry, sizeof(*entry), GFP_KERNEL);
			if (!copy)
				return false;
			put(into, copy);
		}
	return true;
}

/* Whether it is the kernel's first table, an empty constant, which must not be freed. */
static bool is_constant(const struct ftrace_hash *old)
{
	return !old->size_bits;
}

/*
 * Replace the table by a larger one if it is too small for `more` entries; the locks are held. Returns the old table,
 * to be freed once nobody reads it; NULL: it was large enough.
 */
static struct ftrace_hash *grow(u32 more)
{
	struct ftrace_hash *old = table(), *new;
	unsigned long wanted = old->count + more;

	if (!is_constant(old) && (wanted <= 2ul << old->size_bits || old->size_bits >= MOST_BITS))
		return NULL;
	new = new_table(clamp_t(u32, order_base_2(wanted), LEAST_BITS, MOST_BITS));
	if (!new)
		return ERR_PTR(-ENOMEM);
	new->flags = old->flags;
	if (!copy_all(new, old)) {
		free_table(new);
		return ERR_PTR(-ENOMEM);
	}
	smp_store_release(ilk_kernel.direct_functions, new);
	return old;
}

static int make_room(u32 more)
{
	struct ftrace_hash *old;

	lock();
	old = grow(more);
	unlock();
	if (IS_ERR_OR_NULL(old))
		return PTR_ERR_OR_ZERO(old);
	if (is_constant(old))
		return 0;
	synchronize_rcu_tasks_rude();
	synchronize_rcu_tasks();
	free_table(old);
	return 0;
}

static int add(struct ilk_site *site)
{
	struct ftrace_func_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);

	if (!entry)
		return -ENOMEM;
	entry->ip = site->address;
	entry->direct = site->patch;
	put(table(), entry);
	return 0;
}

/* Whether somebody else has a direct call at this function. */
bool ilk_direct_taken(const struct ilk_site *site)
{
	bool taken;

	lock();
	taken = ilk_kernel.ftrace_lookup_ip(table(), site->address);
	unlock();
	return taken;
}

/* Add entries for all sites, or return an error. Each leads to its patch as soon as ftrace is told to call it. */
int ilk_direct_add(struct ilk_site **sites, u32 count)
{
	int error = make_room(count);
	u32 i;

	if (error)
		return error;
	lock();
	for (i = 0; i < count && !error; i++)
		error = ilk_kernel.ftrace_lookup_ip(table(), sites[i]->address) ? -EBUSY :
										  add(sites[i]);
	unlock();
	if (error)
		ilk_direct_remove(sites, i - 1);
	return error;
}

/*
 * Remove the entries of sites that ftrace no longer calls. Each entry stays with its site, and is freed after the grace
 * periods.
 */
void ilk_direct_remove(struct ilk_site **sites, u32 count)
{
	u32 i;

	lock();
	for (i = 0; i < count; i++) {
		struct ftrace_func_entry *entry =
			ilk_kernel.ftrace_lookup_ip(table(), sites[i]->address);

		if (!entry)
			continue;
		hlist_del_rcu(&entry->hlist);
		table()->count--;
		sites[i]->entry = entry;
	}
	unlock();
}
