/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Computes for a while: `n` rounds, each of one of two blocks. */
#ifndef COMPUTING_H
#define COMPUTING_H

__attribute__((noinline, noclone)) unsigned long work(int n, unsigned long a, unsigned long b)
{
	__asm__ volatile("" : : : "memory"); /* or the compiler would call it once */
	for (int i = 0; i < n; i++) {
		if (a & 1)
			a = a * 3 + 1;
		else
			a = a / 2 + b;
		b ^= a << 3;
	}
	return a ^ b;
}

#endif
