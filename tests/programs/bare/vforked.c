/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Forks N children that all stay in vfork until they are killed; prints "ready", and their pids. Usage: vforked N */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static void stay_in_vfork(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!vfork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;

	puts("ready");
	fflush(stdout);
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			stay_in_vfork();
			_exit(0);
		}
		printf("%d\n", (int)pid);
		fflush(stdout);
	}
	for (;;)
		pause();
}
