/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens plugin.so beside it (or $PLUGIN), calls it ten times, closes it: again and again. Prints the calls made. */
#include "check.h"

#include <dlfcn.h>
#include <limits.h>

static char path[PATH_MAX];
static long total;

static void find_plugin(void)
{
	const char *given = getenv("PLUGIN");
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);

	CHECK(length > 0, "readlink");
	path[length] = 0;
	strcpy(strrchr(path, '/') + 1, "plugin.so");
	if (given)
		snprintf(path, sizeof path, "%s", given);
}

static int model(int x)
{
	int sum = 0;

	for (int i = 0; i < 5; i++)
		sum += (x + i) & 1 ? x * i : -i;
	return sum;
}

static void use_plugin(long seed)
{
	long unloaded = 0;
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*hot)(int);
	long **events;

	CHECK(plugin, "dlopen: %s", dlerror());
	hot = (int (*)(int))dlsym(plugin, "plugin_hot");
	events = dlsym(plugin, "plugin_events");
	CHECK(hot && events, "dlsym: %s", dlerror());
	*events = &unloaded;
	for (int i = 0; i < 10; i++, total++)
		CHECK(hot((int)seed + i) == model((int)seed + i), "plugin_hot(%ld) is wrong", seed + i);
	CHECK(!dlclose(plugin), "dlclose: %s", dlerror());
	CHECK(unloaded == 1, "the plugin was not unloaded");
	CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), "the plugin is still there");
}

static void one_round(long amount)
{
	total = 0;
	for (long i = 0; i < amount; i++)
		use_plugin(i);
	printf("calls plugin_hot %ld\n", total);
}

int main(int argc, char **argv)
{
	check_name = "dlopen";
	find_plugin();
	return run_rounds(argc, argv, "dlopen", 100, one_round);
}
