// SPDX-License-Identifier: GPL-2.0
/*
 * Runs groups where processes execute an instruction of a file: the kernel's uprobes.
 *
 * A place is an offset in a file that the client has open. The kernel checks an instruction when it first inserts the
 * uprobe into a process, and only then reports that it refuses it. So the client maps the place into itself while the
 * uprobe is registered. Other processes get the uprobe if they are meant.
 *
 * The kernel increments the counter (semaphore) of a place in a process when it inserts the uprobe there, as soon as
 * the counter is mapped, and decrements it when it removes the uprobe.
 *
 * Registering, unregistering and reading a file may wait for others, who hold a process's mmap lock or serve the file,
 * for any time. So ilk_mutex is not held meanwhile. The client stays, since its file is open; in release() no other
 * code of it runs.
 *
 * Need: ilk_mutex where a message is answered; release() without it, for ilk_d_uprobes_stop().
 */
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mman.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uprobes.h>

#include "d.h"
#include "uprobe.h"
#include "../../host/kernel.h"

#define PAGES 64 /* pages that are made present for one run of a group */

struct place {
	struct list_head list;
	struct uprobe_consumer consumer;
	struct file *file;
	struct inode *inode; /* a reference is held; the inode that processes map, below an overlay if there is one */
	struct ilk_program *program;
	struct mm_struct *trying; /* the client's memory, while the uprobe is being registered */
	u64 offset;
	u64 start;
	u64 semaphore;
	u32 kind;
	u32 group;
	u32 probe;
	u32 flags;
	u32 role;
	u32 count;
	struct pid *process[]; /* held */
};

/* Whether the program is meant to run in the running task's process. */
static bool is_meant(const struct place *place)
{
	u32 i;

	for (i = 0; i < place->count; i++)
		if (place->process[i] == task_tgid(current))
			return true;
	return !place->count || ilk_omits(ILK_OMIT_WHOSE);
}

/* Whether a process has this memory. Its first thread may have ended before others. */
static bool has_memory(struct pid *process, const struct mm_struct *mm)
{
	struct task_struct *first = pid_task(process, PIDTYPE_TGID), *each;

	if (!first)
		return false;
	for_each_thread(first, each)
		if (READ_ONCE(each->mm) == mm)
			return true;
	return false;
}

static bool is_in(const struct place *place, const struct mm_struct *mm)
{
	bool found = !place->count || READ_ONCE(place->trying) == mm || ilk_omits(ILK_OMIT_WHOSE);
	u32 i;

	rcu_read_lock();
	for (i = 0; i < place->count && !found; i++)
		found = has_memory(place->process[i], mm);
	rcu_read_unlock();
	return found;
}

static bool filter(struct uprobe_consumer *consumer, enum uprobe_filter_ctx why, struct mm_struct *mm)
{
	return is_in(container_of(consumer, struct place, consumer), mm);
}

static void load(struct ilk_firing *firing, const struct place *place, const struct pt_regs *regs)
{
	if (place->kind == ILK_D_RETURN) {
		firing->arg[0] = place->offset - place->start;
		firing->arg[1] = regs->ax;
		return ilk_d_no_more(firing, 2);
	}
	firing->arg[0] = regs->di;
	firing->arg[1] = regs->si;
	firing->arg[2] = regs->dx;
	firing->arg[3] = regs->cx;
	firing->arg[4] = regs->r8;
	firing->arg[5] = regs->r9;
	if (!(place->flags & ILK_D_DEEP) || host_peek(0, &firing->arg[6], regs->sp + 8, 4 * sizeof(u64)))
		ilk_d_no_more(firing, 6);
}

static u64 run(struct ilk_firing *firing, const struct place *place, const struct pt_regs *regs)
{
	unsigned long flags;
	u64 missing, jump = firing->arg[0];

	raw_local_irq_save(flags);
	load(firing, place, regs);
	if (place->role == ILK_D_ENDS)
		firing->arg[0] = jump;
	missing = ilk_d_run(firing);
	raw_local_irq_restore(flags);
	return missing;
}

/*
 * Make a page of the task present, and the next one if possible; writable if the address says so. This does not wait
 * for a disk or a server of pages, since the kernel holds the uprobe's lock meanwhile. Returns whether the page is
 * present.
 */
static bool make_present(u64 address)
{
	struct page *page[2];
	unsigned int how = address & ILK_D_TO_WRITE ? FOLL_NOWAIT | FOLL_WRITE : FOLL_NOWAIT;
	long got = get_user_pages_unlocked(address & ~ILK_D_TO_WRITE & PAGE_MASK, 2, page, how);
	long n;

	for (n = 0; n < got; n++)
		put_page(page[n]);
	return got > 0;
}

/* Run a group, again each time that a page was made present. `jump`: arg0 where a call ends that has jumped there. */
static void fire(const struct place *place, const struct pt_regs *regs, u32 group, u32 probe, u64 jump)
{
	struct ilk_firing firing;
	u64 missing, before = 0;
	u32 tries;

	firing.program = place->program;
	firing.group = group;
	firing.probe = probe;
	firing.arg[0] = jump;
	firing.always = false;
	firing.waits = true;
	firing.error = 0;
	firing.regs = NULL;
	firing.edge = place->flags & ILK_D_EDGE;
	missing = run(&firing, place, regs);
	for (tries = 0; missing; tries++) {
		firing.waits = tries < PAGES && missing != before && make_present(missing);
		before = missing;
		firing.arg[0] = jump;
		missing = run(&firing, place, regs);
	}
}

/* Do what the place is there for besides running its group, and run those of calls that are over here. */
static void follow(const struct place *place, const struct pt_regs *regs)
{
	struct ilk_ended call = { place->group, place->probe, place->offset, place->start };
	struct ilk_ended ended[ILK_D_ENDED_MAX];
	unsigned long flags;
	u32 i, count;

	raw_local_irq_save(flags);
	count = ilk_d_follow(place->program, place->role, regs->sp, &call, ended);
	raw_local_irq_restore(flags);
	for (i = 0; i < count; i++)
		fire(place, regs, ended[i].group, ended[i].probe, ended[i].at - ended[i].start);
}

/* A process has executed the instruction. The task is about to return to user space, with these registers. */
static int hit(struct uprobe_consumer *consumer, struct pt_regs *regs)
{
	const struct place *place = container_of(consumer, struct place, consumer);

	if (!is_meant(place)) /* a child of such a process, which may share its memory */
		return is_in(place, current->mm) ? 0 : UPROBE_HANDLER_REMOVE;
	if (place->role <= ILK_D_RETURNS)
		fire(place, regs, place->group, place->probe, 0);
	if (place->role != ILK_D_FIRES)
		follow(place, regs);
	return 0;
}

static void free_place(struct place *place)
{
	u32 i;

	for (i = 0; i < place->count; i++)
		put_pid(place->process[i]);
	iput(place->inode);
	if (place->file)
		fput(place->file);
	kfree(place);
}

/* Take references to the processes. Processes that have ended are left out, unless all have. */
static int hold(struct place *place, const struct ilk_d_uprobe *m)
{
	u32 i;

	for (i = 0; i < m->count; i++) {
		struct pid *process = find_get_pid(m->process[i]);

		if (process)
			place->process[place->count++] = process;
	}
	return m->count && !place->count ? -ESRCH : 0;
}

static struct place *make(struct ilk_program *program, const struct ilk_d_uprobe *m)
{
	struct place *place = kzalloc(struct_size(place, process, m->count), GFP_KERNEL);
	int error;

	if (!place)
		return ERR_PTR(-ENOMEM);
	place->consumer.handler = hit;
	place->consumer.filter = filter;
	place->program = program;
	place->offset = m->offset;
	place->start = m->start;
	place->semaphore = m->semaphore;
	place->kind = m->kind;
	place->group = m->group;
	place->probe = m->probe;
	place->flags = m->flags;
	place->role = m->role;
	error = hold(place, m);
	if (!error) {
		place->file = fget(m->descriptor);
		error = place->file ? 0 : -EBADF;
	}
	if (error) {
		free_place(place);
		return ERR_PTR(error);
	}
	place->inode = d_real_inode(place->file->f_path.dentry);
	ihold(place->inode);
	return place;
}

/* Check that the file has a page cache, and that it contains the bytes that the client has seen. */
static int compare(struct file *file, struct inode *inode, const struct ilk_d_uprobe *m)
{
	u8 found[ILK_D_INSTRUCTION];
	loff_t at = m->offset;

	if (!S_ISREG(inode->i_mode) || (!inode->i_mapping->a_ops->read_folio && !shmem_mapping(inode->i_mapping)))
		return -EIO;
	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!ilk_d_uprobe_lies_in(m, i_size_read(inode)))
		return -ESTALE;
	if (kernel_read(file, found, m->length, &at) != m->length || memcmp(found, m->bytes, m->length))
		return -ESTALE;
	return 0;
}

/* Register the uprobe while the client itself maps the place, so that the kernel reports errors. */
static int enter(struct place *place)
{
	unsigned long at = vm_mmap(place->file, 0, PAGE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, place->offset & PAGE_MASK);
	int error;

	if (IS_ERR_VALUE(at))
		return (int)at;
	WRITE_ONCE(place->trying, current->mm);
	error = uprobe_register_refctr(place->inode, place->offset, place->semaphore, &place->consumer);
	WRITE_ONCE(place->trying, NULL);
	vm_munmap(at, PAGE_SIZE);
	return error == -ENOTSUPP ? -EOPNOTSUPP : error; /* user space has no name for ENOTSUPP */
}

static struct place *add(struct ilk_program *program, const struct ilk_d_uprobe *m)
{
	struct place *place = make(program, m);
	int error;

	if (IS_ERR(place))
		return place;
	error = compare(place->file, place->inode, m);
	if (!error)
		error = enter(place);
	if (!error)
		return place;
	free_place(place);
	return ERR_PTR(error);
}

int ilk_d_uprobe(struct ilk_client *client, struct ilk_d_uprobe *m, u32 size)
{
	struct ilk_program *p = client->program;
	struct place *place;

	if (!p)
		return -ENXIO;
	if (!ilk_d_uprobe_fits(m, size, p->clauses.sizes.groups))
		return -EINVAL;
	if (p->nr_uprobes >= ILK_D_UPROBES_MAX)
		return -E2BIG;
	p->nr_uprobes++;
	mutex_unlock(&ilk_mutex);
	place = add(p, m);
	mutex_lock(&ilk_mutex);
	if (IS_ERR(place)) {
		p->nr_uprobes--;
		return PTR_ERR(place);
	}
	list_add_tail(&place->list, &p->uprobes);
	return 0;
}

/* Unregister all uprobes of the program. None of them runs any more when this returns. */
void ilk_d_uprobes_stop(struct ilk_client *client)
{
	struct ilk_program *p = client->program;
	struct place *place, *next;

	if (!p)
		return;
	list_for_each_entry_safe(place, next, &p->uprobes, list) {
		uprobe_unregister(place->inode, place->offset, &place->consumer);
		list_del(&place->list);
		free_place(place);
		cond_resched();
	}
}
