// SPDX-License-Identifier: GPL-2.0
/*
 * Executable memory within reach of all text, never writable while executable.
 * Its only writer is the kernel's text poking, through a mapping of its own.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ilk.h"

struct arena {
	struct list_head list;
	unsigned long address;
	size_t bytes;
};

/* The memory becomes read-only, and then executable; the allocator resets both when the memory is freed. */
void *ilk_code_alloc(size_t bytes)
{
	int pages = bytes >> PAGE_SHIFT;
	void *code = ilk_kernel.module_alloc(bytes);

	if (!code)
		return NULL;
	memset(code, 0xcc, bytes);
	if (ilk_kernel.set_memory_ro((unsigned long)code, pages) ||
	    ilk_kernel.set_memory_x((unsigned long)code, pages)) {
		ilk_kernel.module_memfree(code);
		return NULL;
	}
	return code;
}

void ilk_code_free(void *code)
{
	ilk_kernel.module_memfree(code);
}

int ilk_arena_create(struct ilk_client *client, u64 bytes, u64 *size, u64 *address)
{
	struct arena *arena;

	if (!bytes)
		return -EINVAL;
	if (bytes > ILK_ARENA_MAX || client->arena_bytes + PAGE_ALIGN(bytes) > ILK_ARENA_MAX)
		return -E2BIG;
	arena = kmalloc(sizeof(*arena), GFP_KERNEL);
	if (!arena)
		return -ENOMEM;
	arena->bytes = PAGE_ALIGN(bytes);
	arena->address = (unsigned long)ilk_code_alloc(arena->bytes);
	if (!arena->address) {
		kfree(arena);
		return -ENOMEM;
	}
	list_add(&arena->list, &client->arenas);
	client->arena_bytes += arena->bytes;
	*size = arena->bytes;
	*address = arena->address;
	return 0;
}

static struct arena *find(struct ilk_client *client, u64 address)
{
	struct arena *arena;

	list_for_each_entry(arena, &client->arenas, list)
		if (address >= arena->address && address - arena->address < arena->bytes)
			return arena;
	return NULL;
}

bool ilk_arena_holds(struct ilk_client *client, unsigned long address)
{
	return find(client, address);
}

int ilk_arena_fill(struct ilk_client *client, u64 address, const void *content, u64 bytes)
{
	struct arena *arena = find(client, address);

	if (!arena || bytes > arena->bytes - (address - arena->address))
		return -EINVAL;
	if (bytes && !ilk_kernel.text_poke_copy((void *)(unsigned long)address, content, bytes))
		return -ENXIO;
	return 0;
}

void ilk_arenas_free(struct ilk_client *client)
{
	struct arena *arena, *next;

	list_for_each_entry_safe(arena, next, &client->arenas, list) {
		ilk_code_free((void *)arena->address);
		kfree(arena);
	}
	INIT_LIST_HEAD(&client->arenas);
	client->arena_bytes = 0;
}
