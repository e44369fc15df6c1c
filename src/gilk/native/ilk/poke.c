// SPDX-License-Identifier: GPL-2.0
/*
 * Writes to text, in batches. What a batch holds is compared with what is
 * expected and queued in the same section of text_mutex in which it is written:
 * a queue that is left over would be flushed by someone else, who then loses
 * his own int3 (the kernel's text poking has one array for all).
 *
 * A kprobe takes a copy of its instruction when it is registered, which may be
 * long before its int3 is written, and uses it, and writes its first byte back,
 * until it is unregistered. So bytes that have a kprobe stay as they are, even
 * if nothing is to be seen of it: over a splice, the copy is our jump, and it
 * leads to the patch for as long as the kprobe lives. Between its copy and its
 * entry in the kernel's table a kprobe is known to nobody, hence kprobe_mutex.
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

/* Nobody writes text, nor sets a kprobe, up to ilk_text_let_go(). False: killed meanwhile. */
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

/* Write what is queued. */
void ilk_text_unlock(void)
{
	ilk_kernel.text_poke_finish();
	ilk_kernel.text_poke_sync(); /* for what was poked without the queue */
	mutex_unlock(ilk_kernel.text_mutex);
	mutex_unlock(ilk_kernel.kprobe_mutex);
}

/* Where the first of the kprobes at these bytes is, or 0; in force or not. */
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

/* For the time in which the first byte is int3, CPUs go to `target`. */
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

/* `poke` is called under the locks for each site that is wanted and well; it gives its status. */
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

/* Our own int3: the trap handler leads to the patch from now on. */
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

/* Takes our int3 out again; it stays when someone has put something else over it. */
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
 * The splice itself. The rest of the window is behind a jump, nobody is in it
 * any more: nops there keep those who decode the function linearly in step.
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

/* The splice goes. A CPU that comes by meanwhile goes to the copy, or does what the old call does. */
static void unsplice(struct ilk_site *site)
{
	u32 front = ilk_front(site->kind);

	if (site->copy)
		queue(site->address, site->old, front, site->copy);
	else
		ilk_kernel.text_poke_queue((void *)site->address, site->old, front, NULL);
}

/*
 * Bytes behind the splice; only once it is there, and nobody can be among them.
 * A kprobe that has come in between has their old ones.
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

/* Nobody comes here before the short jump is written. */
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

/* As it was. */
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

/*
 * For the tests that show what the waits are for: with one of them left out, a
 * kernel under load crashes. And what it is for that uprobes ask whose memory they
 * are in. Only at load, and only there.
 */
static unsigned int omit;
module_param(omit, uint, 0400);
MODULE_PARM_DESC(
	omit,
	"DANGEROUS, for tests: 1 no wait before a jump is written, 2 none before a patch is free, 4 uprobes in whatever process");

bool ilk_omits(u32 what)
{
	return omit & what;
}

/* No CPU, and no task that was preempted there, is any more where one could get to before. */
void ilk_grace(u32 why)
{
	if (omit & why)
		return;
	synchronize_rcu_tasks_rude();
	synchronize_rcu_tasks();
}
