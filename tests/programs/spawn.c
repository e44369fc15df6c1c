/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* posix_spawn of itself and system() of a shell, output read back through a pipe. */
#include "check.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void spawn_echo(long value)
{
	char text[32], got[32] = "", *arguments[] = { (char *)"spawn", (char *)"echo", text, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], status;
	pid_t pid;

	snprintf(text, sizeof text, "value-%ld", value);
	CHECK(!pipe(ends), "pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	CHECK(!posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ), "posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	for (size_t have = 0; have + 1 < sizeof got;) {
		ssize_t more = read(ends[0], got + have, sizeof got - 1 - have);

		if (more <= 0)
			break;
		have += (size_t)more;
	}
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child did not exit: %#x", status);
	CHECK(WEXITSTATUS(status) == 11 && !strcmp(got, text), "status %d, output %s", WEXITSTATUS(status), got);
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++)
		spawn_echo(i);
	CHECK(WEXITSTATUS(system("exit 9")) == 9, "system()");
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "echo")) {
		fputs(argv[2], stdout);
		return 11;
	}
	return run_rounds(argc, argv, "spawn", 20, one_round);
}
