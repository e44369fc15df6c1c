// SPDX-License-Identifier: GPL-2.0
/* Functions' fentry nops belong to ftrace: it makes them call the patch, and knows who else is there. */
#include <linux/ftrace.h>

#include "ilk.h"

u32 ilk_fentry_attach(struct ilk_site *site, u64 *detail)
{
	int error = register_ftrace_direct(site->address, site->patch);

	if (error) {
		*detail = -error;
		return ILK_NO_FENTRY;
	}
	site->state = ILK_ACTIVE;
	return ILK_OK;
}

void ilk_fentry_detach(struct ilk_site *site)
{
	if (site->state == ILK_ACTIVE)
		unregister_ftrace_direct(site->address, site->patch);
	site->state = ILK_NEW;
}
