// SPDX-License-Identifier: GPL-2.0
/*
 * Looks up kernel functions that are not exported. A kprobe tells the address of kallsyms_lookup_name(), which finds
 * all others.
 */
#include <linux/kprobes.h>
#include <linux/printk.h>

#include "ilk.h"

struct ilk_kernel ilk_kernel;

typedef unsigned long (*lookup_fn)(const char *name);

static lookup_fn find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	lookup_fn lookup;

	if (register_kprobe(&probe) < 0)
		return NULL;
	lookup = (lookup_fn)probe.addr;
	unregister_kprobe(&probe);
	return lookup;
}

static unsigned long never_return[ILK_NEVER_RETURN];

static void find_never_return(lookup_fn lookup)
{
	static const char *const names[] = { ILK_NEVER_RETURN_NAMES };
	u32 i;

	for (i = 0; i < ILK_NEVER_RETURN; i++)
		never_return[i] = lookup(names[i]);
}

/* Whether a call of `function` never returns. */
bool ilk_never_returns(unsigned long function)
{
	u32 i;

	for (i = 0; i < ILK_NEVER_RETURN; i++)
		if (never_return[i] == function)
			return true;
	return false;
}

static bool find(lookup_fn lookup, const char *name, void *field)
{
	unsigned long address = lookup(name);

	if (!address)
		pr_err("ilk: this kernel has no %s\n", name);
	*(unsigned long *)field = address;
	return address;
}

/* The address of a function, or of the copy that the compiler has made of it; 0: there is none. */
static unsigned long lookup_copy(lookup_fn lookup, const char *name)
{
	static const char *const copies[] = { ILK_COPIES };
	unsigned long address = 0;
	char whole[KSYM_NAME_LEN];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(copies) && !address; i++) {
		snprintf(whole, sizeof(whole), "%s%s", name, copies[i]);
		address = lookup(whole);
	}
	return address;
}

int ilk_symbols_init(void)
{
	lookup_fn lookup = find_lookup();
	bool all = true;

	if (!lookup) {
		pr_err("ilk: kallsyms_lookup_name cannot be found\n");
		return -ENXIO;
	}
#define ILK_FIND_FUNCTION(name, result, parameters) all &= find(lookup, #name, &ilk_kernel.name);
	ILK_KERNEL_FUNCTIONS(ILK_FIND_FUNCTION)
#undef ILK_FIND_FUNCTION
#define ILK_FIND_DATA(name, type) all &= find(lookup, #name, &ilk_kernel.name);
	ILK_KERNEL_DATA(ILK_FIND_DATA)
#undef ILK_FIND_DATA
#define ILK_FIND_WAY(name, type) all &= find(lookup, #name, &ilk_kernel.way.name);
	ILK_ON_THE_WAY(ILK_FIND_WAY)
#undef ILK_FIND_WAY
#define ILK_FIND_COPY(name, type) ilk_kernel.way.name = (type *)lookup_copy(lookup, #name);
	ILK_MAYBE_ON_THE_WAY(ILK_FIND_COPY)
#undef ILK_FIND_COPY
	find_never_return(lookup);
	return all ? 0 : -ENXIO;
}
