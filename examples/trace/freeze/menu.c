// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program whose menu freezes the first time it is opened: only then does it
 * load the five libraries that drawing it takes.
 *
 *     menu LIBRARY...
 */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

enum { MOST = 8, CLICKS = 12 };

static void *loaded[MOST];

static __attribute__((noinline)) void *load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	return handle;
}

static __attribute__((noinline)) void draw(int items)
{
	for (volatile int pixel = 0; pixel < 1000 * items; pixel++)
		;
}

static __attribute__((noinline)) void open_menu(int count, char **paths)
{
	for (int i = 0; i < count; i++)
		if (!loaded[i])
			loaded[i] = load(paths[i]);
	draw(count);
}

static long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	int count = argc - 1 < MOST ? argc - 1 : MOST;

	for (int click = 1; click <= CLICKS; click++) {
		long before = milliseconds();

		open_menu(count, argv + 1);
		if (click <= 2)
			printf("click %d: the menu was there after %ld ms\n", click, milliseconds() - before);
	}
	for (int i = 0; i < count; i++)
		if (!loaded[i])
			return 1;
	return 0;
}
