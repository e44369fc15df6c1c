/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A server with planted faults: it copies a header into a small array, and looks at a name that may be missing.
 * Eight threads, each with connections of its own. It prints its port. A line `header TEXT` or `look [TEXT]` is
 * answered by the length of the text.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define THREADS 8

NOINLINE long take_header(char *to, const char *header)
{
	strcpy(to, header);
	__asm__ volatile("" : : "r"(to) : "memory");
	return (long)strlen(to);
}

NOINLINE long look_up(const char *name)
{
	__asm__ volatile("" : "+r"(name));
	return name[0] ? (long)strlen(name) : 0;
}

NOINLINE long answer(char *line)
{
	char header[32];

	line[strcspn(line, "\n")] = 0;
	if (!strncmp(line, "header ", 7))
		return take_header(header, line + 7);
	return look_up(strchr(line, ' ') ? strchr(line, ' ') + 1 : 0);
}

static void *serve(void *listening)
{
	for (;;) {
		int connection = accept(*(int *)listening, 0, 0);
		FILE *in = fdopen(connection, "r");
		char line[8192];

		while (in && fgets(line, sizeof line, in))
			dprintf(connection, "%ld\n", answer(line));
		if (in)
			fclose(in);
	}
	return 0;
}

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof address;
	int listening = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread[THREADS];

	if (bind(listening, (struct sockaddr *)&address, size) || listen(listening, 64))
		return 1;
	getsockname(listening, (struct sockaddr *)&address, &size);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (int n = 0; n < THREADS; n++)
		pthread_create(&thread[n], 0, serve, &listening);
	pause();
	return 0;
}
