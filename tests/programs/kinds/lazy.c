/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Strings in memory that a thread of the program fills at the first access (userfaultfd). */
#include "kind.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int faults;

static void *fill(void *unused)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct uffd_msg message;

	(void)unused;
	while (read(faults, &message, sizeof message) == sizeof message) {
		unsigned long at = message.arg.pagefault.address & -4096UL;
		struct uffdio_copy copy = { .dst = at, .src = (unsigned long)page, .len = 4096 };

		snprintf(page, sizeof page, "filled %lu", at >> 12 & 7);
		ioctl(faults, UFFDIO_COPY, &copy);
	}
	return NULL;
}

NOINLINE long look(const char *text);
NOINLINE long look(const char *text)
{
	return work((long)strlen(text));
}

static void once(void)
{
	unsigned long size = CALLS * 4096;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = { .range = { (unsigned long)memory, size }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	long sum = 0;

	if (memory == MAP_FAILED || ioctl(faults, UFFDIO_REGISTER, &range))
		abort();
	for (int i = 0; i < CALLS; i++)
		sum += look(memory + 4096 * i);
	munmap(memory, size);
	printf("%lx\n", sum);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	pthread_t thread;

	(void)argv;
	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) {
		puts("skipped: no userfaultfd");
		return 77;
	}
	pthread_create(&thread, NULL, fill, NULL);
	return attend(argc, once);
}
