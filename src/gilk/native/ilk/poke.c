// SPDX-License-Identifier: GPL-2.0
/*
 * Writes to text, in batches. The bytes are compared with the expected ones, queued and written within one section of
 * text_mutex: the kernel's text poking has one queue for all, and somebody else who flushed a queue that we left over
 * would lose his own int3.
 *
 * A kprobe copies its instruction when it is registered, which may be long before its int3 is written. Until it is
 * unregistered it executes that copy, and writes its first byte back. So bytes that have a kprobe are not changed, even
 * if its int3 is not there: over a splice the copy is our jump, which leads to the patch for as long as the kprobe
 * exists. Between its copy and its entry in the kernel's table a kprobe cannot be found, hence kprobe_mutex.
 */
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "ilk.h"

static const u8 int3 = 0xcc;

bool ilk_text_is(unsigned long address, const void *bytes, size_t length)
{
	u8 there[ILK_WINDOW];

	return !copy_from_kernel_nofault(there, (void *)address, length) &&
	       !memcmp(there, bytes, length);
}

void ilk_text_lock(void)
{
	mutex_lock(ilk_kernel.kprobe_mutex);
	mutex_lock(ilk_kernel.text_mutex);
}

/* Take the locks that keep others from writing text and setting kprobes. False: the task was killed meanwhile. */
bool ilk_text_hold(void)
{
	if (mutex_lock_killable(ilk_kernel.kprobe_mutex))
		return false;
	if (!mutex_lock_killable(ilk_kernel.text_mutex))
		return true;
	mutex_unlock(ilk_kernel.kprobe_mutex);
	return false;
}

void ilk_text_let_go(void)
{
	mutex_unlock(ilk_kernel.text_mutex);
	mutex_unlock(ilk_kernel.kprobe_mutex);
}

/* Write the queued bytes, and release text_mutex. */
void ilk_text_unlock(void)
{
	ilk_kernel.text_poke_finish();
	ilk_kernel.text_poke_sync(); /* for bytes that were written without the queue */
	mutex_unlock(ilk_kernel.text_mutex);
	mutex_unlock(ilk_kernel.kprobe_mutex);
}

/* The address of the first kprobe at these bytes, whether enabled or not; 0: there is none. */
unsigned long ilk_kprobed(unsigned long first, unsigned long last)
{
	unsigned long address, found = 0;

	preempt_disable();
	for (address = first; address <= last && !found; address++)
		if (ilk_kernel.get_kprobe((void *)address))
			found = address;
	preempt_enable();
	return found;
}

static void text_poke(unsigned long address, const void *bytes, size_t length)
{
	if (length)
		ilk_kernel.text_poke((void *)address, bytes, length);
}

/* Queue a write. While the first byte is int3, CPUs that execute it go to `target`. */
static void queue(unsigned long address, const void *bytes, size_t length, unsigned long target)
{
	u8 jump[16] = { 0xe9 };
	s32 distance = target - (address + length);

	memcpy(jump + 1, &distance, 4);
	memset(jump + 5, 0xcc, sizeof(jump) - 5);
	ilk_kernel.text_poke_queue((void *)address, bytes, length, jump);
}

static u32 next(struct ilk_site **sites, u32 i, u32 count, ilk_wanted_fn wanted)
{
	while (i < count && (sites[i]->status != ILK_OK || !wanted(sites[i])))
		i++;
	return i;
}

/* Call `poke` under the locks for each site that is wanted and has no error; its result becomes the site's status. */
void ilk_poke_all(struct ilk_site **sites, u32 count, ilk_wanted_fn wanted, ilk_poke_fn poke)
{
	u32 i = next(sites, 0, count, wanted);

	while (i < count) {
		u32 queued = 0;

		ilk_text_lock();
		for (; i < count && queued < ILK_BATCH; i = next(sites, i + 1, count, wanted)) {
			sites[i]->status = poke(sites[i]);
			queued++;
		}
		ilk_text_unlock();
		cond_resched();
	}
}

/* Whether a kprobe is at the bytes from `from` on; an optimised one before them may reach into them by four. */
static bool kprobed(struct ilk_site *site, s32 from)
{
	unsigned long at = ilk_kprobed(site->address + from, site->address + site->length - 1);

	if (at)
		site->detail = at;
	return at;
}

/* Write our own int3: from now on the trap handler leads to the patch. */
u32 ilk_poke_trap(struct ilk_site *site)
{
	if (kprobed(site, -4))
		return ILK_KPROBE;
	if (!ilk_text_is(site->address, site->old, site->length))
		return ILK_STALE;
	ilk_kernel.text_poke_queue((void *)site->address, &int3, 1, NULL);
	site->state = ILK_TRAPPED;
	return ILK_OK;
}

static bool as_expected(const struct ilk_site *site)
{
	if (site->state != ILK_TRAPPED)
		return ilk_text_is(site->address, site->old, site->length);
	return ilk_text_is(site->address, &int3, 1) &&
	       ilk_text_is(site->address + 1, site->old + 1, site->length - 1);
}

/* Remove our int3 again, unless somebody has written something else over it. */
static u32 give_up(struct ilk_site *site, u32 status)
{
	if (site->state != ILK_TRAPPED)
		return status;
	if (!ilk_text_is(site->address, &int3, 1))
		return ILK_BUSY;
	text_poke(site->address, site->old, 1);
	site->state = ILK_NEW;
	return status;
}

/*
 * Write the splice itself. The rest of the window lies behind the jump, and no CPU is in it any more: it is filled with
 * nops, for the sake of others who decode the function linearly.
 */
u32 ilk_poke_front(struct ilk_site *site)
{
	if (kprobed(site, -4))
		return give_up(site, ILK_KPROBE);
	if (!as_expected(site))
		return give_up(site, ILK_STALE);
	if (site->pad && site->pad->state != ILK_ACTIVE)
		return give_up(site, ILK_BAD_PAD);
	ilk_kernel.text_poke_queue((void *)site->address, site->new, ilk_front(site->kind), NULL);
	site->state = ILK_ACTIVE;
	return ILK_OK;
}

/* Remove the splice. Meanwhile a CPU that executes it goes to the copy, or makes the old call. */
static void unsplice(struct ilk_site *site)
{
	u32 front = ilk_front(site->kind);

	if (site->copy)
		queue(site->address, site->old, front, site->copy);
	else
		ilk_kernel.text_poke_queue((void *)site->address, site->old, front, NULL);
}

/*
 * Write the bytes behind the splice, once the splice is there and no CPU can be among them. A kprobe that was set in
 * between has a copy of the old bytes, so these stay.
 */
u32 ilk_poke_rest(struct ilk_site *site)
{
	u32 front = ilk_front(site->kind);

	if (site->state != ILK_ACTIVE)
		return ILK_OK;
	if (kprobed(site, 0)) {
		unsplice(site);
		site->state = ILK_NEW;
		return ILK_KPROBE;
	}
	text_poke(site->address + front, site->new + front, site->length - front);
	return ILK_OK;
}

/* Write a pad. No CPU comes here before the short jump is written. */
u32 ilk_poke_pad(struct ilk_site *site)
{
	if (site->host && site->host->state != ILK_ACTIVE)
		return ILK_BAD_PAD;
	if (kprobed(site, -4))
		return ILK_KPROBE;
	if (!ilk_text_is(site->address, site->old, site->length))
		return ILK_STALE;
	text_poke(site->address, site->new, site->length);
	site->state = ILK_ACTIVE;
	return ILK_OK;
}

/* Restore the original bytes. */
u32 ilk_poke_back(struct ilk_site *site)
{
	u32 front = ilk_front(site->kind);

	if (site->state == ILK_TRAPPED)
		return give_up(site, ILK_OK);
	if (site->state != ILK_ACTIVE)
		return ILK_OK;
	if (kprobed(site, 0) || !ilk_text_is(site->address, site->new, site->length))
		return ILK_BUSY;
	if (site->kind == ILK_PAD) {
		text_poke(site->address, site->old, site->length);
		return ILK_OK;
	}
	text_poke(site->address + front, site->old + front, site->length - front);
	unsplice(site);
	return ILK_OK;
}

/* It can be set only when the module is loaded. */
static unsigned int omit;
module_param(omit, uint, 0400);
MODULE_PARM_DESC(omit, "DANGEROUS, for tests: safeguards to leave out, as a sum of the numbers in omit.h");

DEFINE_STATIC_KEY_FALSE(ilk_omitting);

void ilk_omit_init(void)
{
	if (omit)
		static_branch_enable(&ilk_omitting);
}

bool ilk_omits(u32 what)
{
	return omit & what;
}

/* Wait until no CPU, and no preempted task, is any more in code that it could have entered before. */
void ilk_grace(u32 why)
{
	if (omit & why)
		return;
	synchronize_rcu_tasks_rude();
	synchronize_rcu_tasks();
}
