/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pulsar: a known sequence of forks (GILK, figure 7).
 *
 *	pulsar BURSTS FORKS MILLISECONDS
 *
 * Each burst is so many forks in a row, of children that end at once; then it
 * sleeps, and then it waits for all of them.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void burst(int forks, int milliseconds)
{
	for (int i = 0; i < forks; i++)
		if (fork() == 0)
			_exit(0);
	usleep(1000 * milliseconds);
	for (int i = 0; i < forks; i++)
		wait(NULL);
}

int main(int count, char *words[])
{
	if (count != 4)
		return 2;
	for (int n = atoi(words[1]); n > 0; n--)
		burst(atoi(words[2]), atoi(words[3]));
	return 0;
}
