// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is shared between a client's module and processes (ILK_SHARE in ilk_abi.h): a new file in memory, all
 * pages of which are allocated and pinned. If a process punches a hole into the file, it no longer sees the kernel's
 * pages, which stay allocated until they are released here.
 */
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ilk.h"

#define NAME "memfd:gilk-memory-kernel" /* begins as the name of all memory that processes share with gilk */

struct ilk_shared {
	struct file *file;
	void *memory;
	struct page **pages;
	unsigned long count; /* how many pages are held */
};

static void release(struct ilk_shared *shared)
{
	vunmap(shared->memory);
	while (shared->count)
		put_page(shared->pages[--shared->count]);
	kvfree(shared->pages);
	if (!IS_ERR_OR_NULL(shared->file))
		fput(shared->file);
	kfree(shared);
}

/* Create the file, before anybody else has it open. */
static int make(struct ilk_shared *shared, u64 bytes)
{
	shared->file = shmem_file_setup(NAME, bytes, VM_NORESERVE);
	if (IS_ERR(shared->file))
		return PTR_ERR(shared->file);
	SHMEM_I(file_inode(shared->file))->seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
	shared->file->f_mode |= FMODE_LSEEK | FMODE_PREAD | FMODE_PWRITE;
	mapping_set_unevictable(shared->file->f_mapping);
	return 0;
}

static int fill(struct ilk_shared *shared, unsigned long count)
{
	struct address_space *mapping = shared->file->f_mapping;
	struct page *page;

	while (shared->count < count) {
		if (fatal_signal_pending(current))
			return -EINTR;
		page = shmem_read_mapping_page_gfp(mapping, shared->count,
						   mapping_gfp_mask(mapping) | __GFP_NOWARN);
		if (IS_ERR(page))
			return PTR_ERR(page) == -ENOSPC ? -ENOMEM : PTR_ERR(page);
		shared->pages[shared->count++] = page;
		cond_resched();
	}
	return 0;
}

static int create(struct ilk_shared *shared, u64 bytes)
{
	unsigned long count = bytes >> PAGE_SHIFT;
	int error = make(shared, bytes);

	if (error)
		return error;
	shared->pages = kvmalloc_array(count, sizeof(*shared->pages), GFP_KERNEL | __GFP_NOWARN);
	if (!shared->pages)
		return -ENOMEM;
	error = fill(shared, count);
	if (error)
		return error;
	shared->memory = vmap(shared->pages, count, VM_MAP, PAGE_KERNEL);
	return shared->memory ? 0 : -ENOMEM;
}

int ilk_share(struct ilk_client *client, struct ilk_share *message)
{
	struct ilk_shared *shared;
	int error, descriptor;

	if (!message->bytes || message->reserved)
		return -EINVAL;
	if (message->bytes > ILK_SHARE_MAX)
		return -E2BIG;
	if (client->shared)
		return -EBUSY;
	shared = kzalloc(sizeof(*shared), GFP_KERNEL);
	if (!shared)
		return -ENOMEM;
	error = create(shared, PAGE_ALIGN(message->bytes));
	descriptor = error ? error : get_unused_fd_flags(O_CLOEXEC);
	if (descriptor < 0) {
		release(shared);
		return descriptor;
	}
	message->bytes = PAGE_ALIGN(message->bytes);
	message->address = (u64)(unsigned long)shared->memory;
	message->descriptor = descriptor;
	client->shared = shared;
	fd_install(descriptor, get_file(shared->file));
	return 0;
}

/* Switch all aspects off, for everybody who shares the memory, at one moment. */
void ilk_share_off(struct ilk_client *client)
{
	if (client->shared)
		smp_store_release((u64 *)client->shared->memory, 0);
}

/* Call this only when no unit of the client is left, so that no code uses the memory any more. */
void ilk_share_free(struct ilk_client *client)
{
	if (client->shared)
		release(client->shared);
	client->shared = NULL;
}
