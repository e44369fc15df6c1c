/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The least that an instrument in C does. */
#include <gilk.h>

static unsigned long ticks;

void tick(unsigned int iid)
{
	(void)iid;
	ticks++;
}
