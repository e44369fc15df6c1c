/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Logs the name of the program that waits here, with the time. */
#include <gilk.h>
#include <linux/sched.h>

void whose(const struct gilk_regs *regs, unsigned int iid)
{
	ilk_log_string_sample(current->comm, iid);
}
