/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shapes of code as the kernel's compiler options give them: short blocks,
 * calls through thunks, cold parts, loops, tail calls. Every function is pure
 * but for what its arguments point at.
 */
typedef unsigned long u64;
typedef unsigned int u32;

#define NOINLINE __attribute__((noinline, noclone))
#define unlikely(x) __builtin_expect(!!(x), 0)

struct node {
	struct node *next;
	u64 key;
	u32 flags;
	u32 count;
	u64 (*visit)(struct node *, u64);
};

NOINLINE u64 leaf(u64 a, u64 b)
{
	return a ^ b;
}

NOINLINE void nothing(void)
{
}

NOINLINE __attribute__((cold)) u64 complain(u64 a)
{
	return leaf(a, 0x5555) + 1;
}

NOINLINE u64 branches(u64 a, u64 b, u64 c)
{
	if (a & 1)
		b += 3;
	if (a & 2)
		b ^= c;
	if (a & 4)
		c--;
	if (unlikely(a & 0x700))
		b = complain(b);
	return b + c;
}

NOINLINE u64 sum(const u32 *from, u64 n)
{
	u64 total = 0;

	while (n--)
		total += *from++;
	return total;
}

NOINLINE u64 find(struct node *list, u64 key)
{
	for (; list; list = list->next) {
		if (list->key == key)
			return list->visit ? list->visit(list, key) : list->count;
		list->count++;
	}
	return 0;
}

NOINLINE u64 tail(u64 a, u64 b)
{
	if (a > b)
		return leaf(a, b);
	return branches(a, b, a - b);
}

NOINLINE u64 indirect(u64 (*f)(u64, u64), u64 a, u64 b)
{
	return f(a, b) + f(b, a);
}

NOINLINE u64 choose(u32 what, u64 a, u64 b)
{
	switch (what & 15) {
	case 0: return a + b;
	case 1: return a - b;
	case 2: return a * b;
	case 3: return b ? a / b : 0;
	case 4: return leaf(a, b);
	case 5: return tail(a, b);
	case 6: return branches(a, b, a);
	case 7: return a << (b & 63);
	case 8: return indirect(leaf, a, b);
	case 9: nothing(); return a;
	default: return complain(a);
	}
}

NOINLINE u64 carry(u64 *x, const u64 *y, u64 n)
{
	unsigned char c = 0;
	u64 i;

	for (i = 0; i < n; i++)
		c = __builtin_ia32_addcarryx_u64(c, x[i], y[i], (unsigned long long *)&x[i]);
	return c;
}

NOINLINE u64 everything(u32 *words, struct node *list, u64 n, u64 seed)
{
	u64 total = sum(words, n & 15), i;

	for (i = 0; i < (n & 31); i++) {
		seed = seed * 6364136223846793005UL + 1442695040888963407UL;
		total += choose((u32)(seed >> 33), seed, total);
		if (unlikely((seed & 0xff) == 3))
			total ^= complain(total);
	}
	return total + find(list, seed & 7);
}
