/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The common parts of all target programs: checks that tell what broke, and the
 * command line.
 *
 *   PROGRAM            one round of the quick amount of work
 *   PROGRAM AMOUNT     one round of AMOUNT
 *   PROGRAM loop       "ready", then rounds of the quick amount until standard input closes
 *   PROGRAM loop N     the same for N seconds
 *
 * Success prints "ok NAME" last and exits 0. A broken check prints "FAIL NAME: ..."
 * on standard error and exits 1.
 */
#ifndef CHECK_H
#define CHECK_H

#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define UNUSED __attribute__((unused))
/* Keeps the compiler from deleting, merging or moving calls. */
#define BARRIER() __asm__ volatile("" ::: "memory")

static const char *check_name UNUSED = "?";

__attribute__((noreturn, format(printf, 2, 3), cold)) static void UNUSED check_failed(int line, const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "FAIL %s: line %d: ", check_name, line);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	fflush(stderr);
	_exit(1);
}

#define CHECK(condition, ...)                              \
	do {                                               \
		if (__builtin_expect(!(condition), 0))     \
			check_failed(__LINE__, __VA_ARGS__); \
	} while (0)

static double UNUSED seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int UNUSED input_closed(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN, .revents = 0 };
	char drop[64];

	if (poll(&input, 1, 0) <= 0)
		return 0;
	if (input.revents & POLLIN)
		return read(0, drop, sizeof drop) <= 0;
	return (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static void UNUSED loop_rounds(const char *limit, long amount, void (*one_round)(long))
{
	double end = limit ? seconds_now() + atof(limit) : 0;
	long rounds = 0;

	puts("ready");
	fflush(stdout);
	do {
		one_round(amount);
		rounds++;
	} while (limit ? seconds_now() < end : !input_closed());
	printf("rounds %ld\n", rounds);
}

static int UNUSED run_rounds(int argc, char **argv, const char *name, long quick, void (*one_round)(long))
{
	check_name = name;
	if (argc > 1 && !strcmp(argv[1], "loop"))
		loop_rounds(argc > 2 ? argv[2] : NULL, quick, one_round);
	else
		one_round(argc > 1 ? atol(argv[1]) : quick);
	printf("ok %s\n", name);
	fflush(stdout);
	return 0;
}

#endif
