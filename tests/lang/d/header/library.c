/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Another file with probes of the same provider: of the same program, or of a library. */
#include "app.h"

#ifdef __cplusplus
extern "C"
#endif
int listened_to(int round);

int listened_to(int round)
{
	if (APP_VALUE_ENABLED())
		return -1; /* nobody does, who is asked for something else */
	APP_SMALL_SIZES(1, 2, 3, 4, 5, 0);
	APP_START();
	(void)round;
	return APP_SMALL_SIZES_ENABLED();
}
