/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unusual only in how it is linked, or where it runs. */
#include "kind.h"

int main(int argc, char **argv)
{
	(void)argv;
	return attend(argc, steadily);
}
