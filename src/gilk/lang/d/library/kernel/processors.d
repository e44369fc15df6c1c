/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many processors a mask of the kernel has, of the first 512. Bits are added up in pairs, in fours, and in bytes. */
inline unsigned long in_pairs[unsigned long W] = W - ((W >> 1) & 0x5555555555555555);
inline unsigned long in_fours[unsigned long P] = (P & 0x3333333333333333) + ((P >> 2) & 0x3333333333333333);
inline unsigned long in_bytes[unsigned long F] = (F + (F >> 4)) & 0x0f0f0f0f0f0f0f0f;
inline int set_in[unsigned long W] = (int)((in_bytes[in_fours[in_pairs[W]]] * 0x0101010101010101) >> 56);
inline int set_in_word[unsigned long *M, int N] = (int)`nr_cpu_ids > 64 * N ? set_in[M[N]] : 0;
inline int processors_in[struct cpumask *M] =
	set_in_word[(unsigned long *)M, 0] + set_in_word[(unsigned long *)M, 1] +
	set_in_word[(unsigned long *)M, 2] + set_in_word[(unsigned long *)M, 3] +
	set_in_word[(unsigned long *)M, 4] + set_in_word[(unsigned long *)M, 5] +
	set_in_word[(unsigned long *)M, 6] + set_in_word[(unsigned long *)M, 7];
