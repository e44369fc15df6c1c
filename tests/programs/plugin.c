/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library that dlopen.c loads and unloads: a function of several blocks, a constructor and a destructor. */
long *plugin_events;
static long loaded;

int plugin_hot(int x);
long plugin_loaded(void);

__attribute__((constructor)) static void on_load(void)
{
	loaded = 1;
}

__attribute__((destructor)) static void on_unload(void)
{
	if (plugin_events)
		++*plugin_events;
}

__attribute__((noinline)) int plugin_hot(int x)
{
	int sum = 0;

	for (int i = 0; i < 5; i++) {
		if ((x + i) & 1)
			sum += x * i;
		else
			sum -= i;
		__asm__ volatile("" ::: "memory");
	}
	return sum;
}

long plugin_loaded(void)
{
	return loaded;
}
