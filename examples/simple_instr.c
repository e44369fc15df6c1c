/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The smallest instrument: one sample, with the time, whenever control passes.
 *
 *	gilk run -i 'libc:malloc:entry=simple_instr.c:simple_instr' -o samples.parquet -- ls
 *	gilk query samples.parquet 'select point, count(*) from samples group by point'
 *
 * An instrument that takes only its number is the cheapest: nothing is saved
 * around it but what it changes and the program still needs.
 */
#include <gilk.h>

void simple_instr(unsigned int iid)
{
	ilk_log_integer_sample(gilk_time(), iid);
}
