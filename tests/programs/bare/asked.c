// SPDX-License-Identifier: LGPL-2.1-or-later
/* Calls api() of the library that it is given, until its input ends: then says how many results were wrong, of how many. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>

typedef long api_fn(long a, long b, long c);

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	api_fn *api = library ? (api_fn *)dlsym(library, "api") : NULL;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	long wrong = 0, total = 0;

	if (!api) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (!poll(&input, 1, 0)) {
		for (int i = 0; i < 100; i++, total++)
			wrong += api(total, i, 7) != total + 7;
	}
	printf("%ld %ld\n", wrong, total);
	return 0;
}
