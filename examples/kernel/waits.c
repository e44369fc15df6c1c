/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which program is it that waits here? Its name, with the time. */
#include <gilk.h>
#include <linux/sched.h>

void whose(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_string_sample(current->comm, iid);
}
