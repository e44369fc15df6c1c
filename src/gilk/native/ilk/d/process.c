// SPDX-License-Identifier: GPL-2.0
/*
 * Facts about the running task in user space, for clauses: its registers, its stack, and the image that it runs.
 *
 * The driver notes an image when a clause first asks for it, and again when it has mapped more code since. A note holds
 * a reference to the memory map until the client has read it, so code has names even if the process has ended
 * meanwhile. Notes are made with interrupts off, perhaps in an NMI; a note's state makes one CPU at a time its owner.
 *
 *	FREE, TOLD -> FILLING -> HELD	a hit
 *	HELD -> FILLING -> TOLD		the client, with ilk_mutex
 */
#include <linux/atomic.h>
#include <linux/dcache.h>
#include <linux/mm.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "d.h"
#include "task.h"
#include "../../host/kernel.h"
#include "../../runtime/d/registers.h"

#define NOTES 1024u /* a power of two */
#define TRIES 16u /* notes that are tried for an image */

enum note_state { FREE, FILLING, HELD, TOLD };

struct note {
	int state;
	u64 image; /* unique among all processes since boot */
	unsigned long code; /* pages of code that it has mapped when it is noted */
	struct mm_struct *mm; /* HELD: a reference is held */
};

struct ilk_images {
	atomic_t lost;
	struct note note[NOTES];
};

struct ilk_images *ilk_d_images_create(void)
{
	return vzalloc(sizeof(struct ilk_images));
}

/* Release all memory maps, without telling the client. */
void ilk_d_images_let_go(struct ilk_images *images)
{
	u32 i;

	for (i = 0; images && i < NOTES; i++) {
		struct note *note = &images->note[i];
		struct mm_struct *mm;

		if (smp_load_acquire(&note->state) != HELD || cmpxchg(&note->state, HELD, FILLING) != HELD)
			continue;
		mm = note->mm;
		note->mm = NULL;
		smp_store_release(&note->state, TOLD);
		mmput_async(mm);
	}
}

/* Free the notes. No code runs any more that could make one. */
void ilk_d_images_free(struct ilk_images *images)
{
	ilk_d_images_let_go(images);
	vfree(images);
}

static bool is_noted(const struct note *note, u64 image, unsigned long code)
{
	int state = smp_load_acquire(&note->state);

	return (state == HELD || state == TOLD) && READ_ONCE(note->image) == image && READ_ONCE(note->code) == code;
}

/* Fill in a note. True: it holds the memory map, or the task has none any more. */
static bool fill(struct note *note, int from, struct mm_struct *mm, unsigned long code)
{
	if (READ_ONCE(note->state) != from || cmpxchg(&note->state, from, FILLING) != from)
		return false;
	if (!mmget_not_zero(mm)) {
		smp_store_release(&note->state, from);
		return true;
	}
	WRITE_ONCE(note->image, mm->context.ctx_id);
	WRITE_ONCE(note->code, code);
	note->mm = mm;
	smp_store_release(&note->state, HELD);
	return true;
}

/* Whether the image is noted already; the client will be told about it with all that it has mapped by then. */
static bool is_held(struct note *note, u64 image, unsigned long code)
{
	if (smp_load_acquire(&note->state) != HELD || READ_ONCE(note->image) != image)
		return false;
	WRITE_ONCE(note->code, code);
	return true;
}

static void make_note(struct ilk_images *images, u32 first, struct mm_struct *mm, unsigned long code)
{
	static const int order[] = { TOLD, FREE, TOLD };
	u32 turn, i;

	for (i = 0; i < TRIES; i++)
		if (is_held(&images->note[(first + i) % NOTES], mm->context.ctx_id, code))
			return;
	for (turn = 0; turn < ARRAY_SIZE(order); turn++)
		for (i = 0; i < TRIES; i++) {
			struct note *note = &images->note[(first + i) % NOTES];

			if (!turn && READ_ONCE(note->image) != mm->context.ctx_id)
				continue;
			if (fill(note, order[turn], mm, code))
				return;
		}
	atomic_inc(&images->lost);
}

/* The task's registers in user space; null: it has none. */
static const struct pt_regs *user_registers(void)
{
	struct pt_regs *regs = task_pt_regs(current);

	if (current->flags & (PF_KTHREAD | PF_IO_WORKER) || !current->mm || !user_mode(regs))
		return NULL;
	return regs;
}

u64 ilk_d_image(struct ilk_images *images)
{
	struct mm_struct *mm = current->mm;
	u64 image;
	unsigned long code;
	u32 first, i;

	if (!images || !user_registers())
		return current->tgid;
	image = mm->context.ctx_id;
	code = READ_ONCE(mm->exec_vm);
	first = (u32)image * 0x9e3779b1u >> 16;
	for (i = 0; i < TRIES; i++)
		if (is_noted(&images->note[(first + i) % NOTES], image, code))
			break;
	if (i == TRIES)
		make_note(images, first, mm, code);
	return image << 32 | current->tgid;
}

static u32 put(u64 *to, u32 at, u64 address)
{
	if (to)
		to[at] = address;
	return at + 1;
}

/* Follow frame pointers: a frame has the caller's frame pointer, and above it the return address. Stacks grow down. */
u32 ilk_d_user_stack(u64 *to, u32 most, u64 edge)
{
	const struct pt_regs *regs = user_registers();
	u64 frame[2], at;
	u32 count = 0;

	if (!regs || !most)
		return 0;
	count = put(to, count, regs->ip);
	if (!user_64bit_mode((struct pt_regs *)regs))
		return count;
	if (edge && count < most && host_is_mapped(regs->sp, 8) && host_load_users(&at, regs->sp, 8) && at)
		count = put(to, count, at);
	for (at = regs->bp; count < most && at >= regs->sp && at % 8 == 0; at = frame[0]) {
		if (!host_is_mapped(at, sizeof(frame)) || !host_load_users(frame, at, sizeof(frame)) || !frame[1])
			break;
		count = put(to, count, frame[1]);
		if (frame[0] <= at)
			break;
	}
	return count;
}

/*
 * The same for registers that are not in struct gilk_regs. Data segments and the base of FS are still those of user space.
 */
static bool load_other(const struct pt_regs *regs, u32 place, u64 *to)
{
	switch (place) {
	case GD_CS:
		*to = regs->cs;
		return true;
	case GD_SS:
		*to = regs->ss;
		return true;
	case GD_GS: /* the kernel's own is in use */
		rdmsrl(MSR_KERNEL_GS_BASE, *to);
		return true;
	case GD_ERR:
		*to = current->thread.error_code;
		return true;
	case GD_TRAPNO:
		*to = current->thread.trap_nr;
		return true;
	}
	return host_segment(place - GD_CS, to);
}

bool ilk_d_user_register(u32 place, u64 *to)
{
	const struct pt_regs *regs = user_registers();

	if (!regs)
		return false;
	if (place >= sizeof(struct gilk_regs) / 8)
		return load_other(regs, place, to);
	{
		const u64 all[] = {
			regs->ax, regs->cx, regs->dx, regs->bx, regs->sp, regs->bp, regs->si, regs->di, regs->r8,
			regs->r9, regs->r10, regs->r11, regs->r12, regs->r13, regs->r14, regs->r15, regs->ip, regs->flags,
		};

		*to = all[place];
	}
	return true;
}

/* Store the path of a file as the client is told it. */

static void name_of(struct ilk_d_mapping *to, struct file *file)
{
	char *path = file ? d_path(&file->f_path, to->path, sizeof(to->path)) : "[vdso]";

	if (IS_ERR(path))
		memset(to->path, 0, sizeof(to->path));
	else
		memmove(to->path, path, strlen(path) + 1);
}

static bool is_told(const struct mm_struct *mm, const struct vm_area_struct *area)
{
	return area->vm_flags & VM_EXEC &&
	       (area->vm_file || area->vm_start == (unsigned long)mm->context.vdso);
}

/* Store the mappings of a memory map, whose lock is held. */
static void tell(struct mm_struct *mm, struct ilk_d_mapped *m)
{
	struct vm_area_struct *area;

	for (area = find_vma(mm, 0); area; area = find_vma(mm, area->vm_end)) {
		struct ilk_d_mapping *to = &m->mapping[m->count];

		cond_resched();
		if (!is_told(mm, area) || m->count++ >= m->room)
			continue;
		memset(to, 0, sizeof(*to));
		to->start = area->vm_start;
		to->end = area->vm_end;
		to->offset = (u64)area->vm_pgoff << PAGE_SHIFT;
		name_of(to, area->vm_file);
	}
}

/*
 * Tell the client about a note. If the map is locked, it is told next time: waiting with ilk_mutex held might never
 * end.
 */
static bool tell_of(struct note *note, struct ilk_d_mapped *m)
{
	struct mm_struct *mm = note->mm;
	unsigned long code = READ_ONCE(mm->exec_vm);

	if (!mmap_read_trylock(mm))
		return false;
	m->image = (u32)note->image;
	tell(mm, m);
	mmap_read_unlock(mm);
	if (cmpxchg(&note->state, HELD, FILLING) == HELD) {
		note->mm = NULL;
		WRITE_ONCE(note->code, code);
		smp_store_release(&note->state, TOLD);
	}
	mmput_async(mm);
	return true;
}

int ilk_d_mapped(struct ilk_client *client, struct ilk_d_mapped *m, u32 size)
{
	struct ilk_program *p = client->program;
	u32 i;

	if (!p)
		return -ENXIO;
	if (m->room > (size - sizeof(*m)) / sizeof(m->mapping[0]))
		return -ENOSPC;
	m->count = m->image = 0;
	m->lost = atomic_read(&p->clauses.images->lost);
	for (i = 0; i < NOTES; i++) {
		struct note *note = &p->clauses.images->note[i];

		if (smp_load_acquire(&note->state) == HELD && tell_of(note, m))
			break;
	}
	return 0;
}
