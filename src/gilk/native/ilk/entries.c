// SPDX-License-Identifier: GPL-2.0
/* The addresses that generated code may use; SYMBOLS in ilk_abi.h. */
#include <linux/kernel.h>
#include <linux/string.h>

#include "ilk.h"
#include "d/d.h"

/* The addresses that generated code may call. Returns how many there are; the first `room` of them are stored. */
u32 ilk_call_symbols(struct ilk_symbol *symbols, u32 room)
{
	static const struct {
		const char *name;
		void *address;
	} all[] = {
		{ "ilk_reserve", ilk_reserve },
		{ "ilk_registers", ilk_registers },
		{ "ilk_fire", ilk_fire },
		{ "ilk_log_pair", ilk_log_pair },
		{ "ilk_log_string", ilk_log_string },
		{ "ilk_log_registers", ilk_log_registers },
		{ "ilk_onward", &ilk_onward },
		{ "ilk_onward_jumps", ilk_onward_jumps },
		{ "ilk_onward_begins", ilk_onward_begins },
		{ "ilk_onward_returns", ilk_onward_returns },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(all) && i < room; i++) {
		strscpy_pad(symbols[i].name, all[i].name, sizeof(symbols[i].name));
		symbols[i].address = (u64)(unsigned long)all[i].address;
	}
	return ARRAY_SIZE(all);
}
