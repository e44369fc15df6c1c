/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library that deep.c opens. */
long later(long (*call)(long), long number)
{
	return call(number) + 1;
}
