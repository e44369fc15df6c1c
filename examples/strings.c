/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The string that the first argument points to, as text. Which variables of
 * the environment does a program ask for?
 *
 *	gilk run -i 'libc:getenv:entry=strings.c:first_argument' -o asked.parquet -- ls
 *	gilk query asked.parquet 'select distinct text from samples order by text'
 *
 * The pointer must be readable; the text ends at its zero, or after 232 bytes.
 */
#include <gilk.h>

void first_argument(const struct gilk_regs *regs, unsigned int iid)
{
	if (regs->rdi)
		ilk_log_string_sample((const char *)regs->rdi, iid);
}
