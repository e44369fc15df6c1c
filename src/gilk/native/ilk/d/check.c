// SPDX-License-Identifier: GPL-2.0
/* Has code checked, and links it into the driver: its calls lead to helpers, its end back to where it was entered. */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "d.h"
#include "check.h"

static u64 helper(u32 number)
{
	return (u64)(unsigned long)ilk_d_helpers[number];
}

static enum ilk_d_verdict prove(struct ilk_d_code *checked, struct ilk_d_program *message)
{
	enum ilk_d_verdict verdict = ilk_d_check(checked);

	message->verdict = verdict;
	message->where = checked->where;
	return verdict;
}

/* Check and link a copy of the client's code; `code` is changed. The message gets the verdict. */
int ilk_d_prove(struct ilk_d_program *message, struct ilk_program *program, const u8 *code)
{
	u32 size = message->code;
	struct ilk_d_code checked = {
		.size = size,
		.frame = message->frame,
		.clausetime = message->clausetime,
		.groups = message->groups,
		.deeds = message->flags & ILK_D_DESTRUCTIVE,
		.entry = program->clauses.entry,
	};
	u8 *copy = kvmalloc(size + 8, GFP_KERNEL | __GFP_ZERO);
	int error = -ENOMEM;

	checked.code = copy;
	checked.ways = kvmalloc_array(size, sizeof(u32), GFP_KERNEL);
	if (!copy || !checked.ways)
		goto out;
	memcpy(copy, code, size);
	error = 0;
	if (prove(&checked, message) != ILK_D_SOUND)
		goto out;
	error = -ENOMEM;
	program->code = ilk_code_alloc(PAGE_ALIGN(size));
	if (!program->code)
		goto out;
	ilk_d_link(copy, size, (u64)(unsigned long)program->code, helper, (u64)(unsigned long)ilk_d_leave);
	error = ilk_kernel.text_poke_copy(program->code, copy, size) ? 0 : -ENXIO;
out:
	kvfree(checked.ways);
	kvfree(copy);
	return error;
}
