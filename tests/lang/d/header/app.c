/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program with probes of its own, by the header that is made of app.d. It is C and C++. What a probe should be told it
 * prints, a line a probe; alone it does so three times. With the word "wait" it goes on until somebody has listened, and
 * has gone.
 */
#include "app.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct request { int number; };
enum color { RED, BLUE };

#ifdef __cplusplus
extern "C" int listened_to(int round);
#else
int listened_to(int round);
#endif

volatile int minus_one = -1;
static char text[] = "some text";

static void tell(int round, int told)
{
	struct request request = { round };
	signed char byte = (signed char)(SCHAR_MIN + round);
	unsigned short word = (unsigned short)minus_one;
	long long big = LLONG_MIN + round;

	APP_START();
	APP_SMALL_SIZES(byte, 255, 'x', (short)minus_one, word, BLUE);
	APP_LARGE(INT_MIN + round, UINT_MAX, big, (unsigned long)minus_one, text, "words");
	APP_REQUEST_DONE(&request);
	APP_MANY(0, 1, round, 3, minus_one, 5, 6, 7, 8, round + 9, 10, text);
	APP_VALUE(round / 2.0);
	if (!told)
		return;
	printf("start\n");
	printf("small %d 255 120 -1 65535 1\n", byte);
	printf("large %d %u %lld -1 some text words\n", INT_MIN + round, UINT_MAX, big);
	printf("request %d\n", round);
	printf("many 0 1 %d 3 -1 5 6 7 8 %d\n", round, round + 9);
}

static int wait_for_listeners(int wanted)
{
	struct timespec pause = { 0, 1000000 };

	for (int round = 0; round < 60000; round++) {
		tell(round, 0);
		if (APP_START_ENABLED() == wanted && listened_to(round) == wanted)
			return 1;
		nanosleep(&pause, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "wait")) {
		printf("waits\n");
		fflush(stdout);
		return wait_for_listeners(1) && wait_for_listeners(0) ? 0 : 1;
	}
	for (int round = 0; round < 3; round++) {
		tell(round, 1);
		printf("enabled %d %d\n", (int)APP_START_ENABLED(), listened_to(round));
	}
	return 0;
}
