/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The smallest instrument in C. */
#include <gilk.h>

static unsigned long ticks;

void tick(unsigned int iid)
{
	(void)iid;
	ticks++;
}
