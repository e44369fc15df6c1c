/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks whether "name" is its own file, and then opens it by that name; another process, the attacker, does something in
 * between, on command or all the time. It prints what it has read, by line:
 *
 * "attacker PID"; for each of STEPS "STEP RESULT", with what the open gave: own, secret, or why it failed; for the race
 * "raced OWN SECRET DENIED", once SECRET or DENIED is ROUNDS. Usage: raced DIRECTORY ROUNDS
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 1000000 /* rounds of a race that nobody wins */

static void must(int done, const char *what)
{
	if (done >= 0)
		return;
	perror(what);
	_exit(2);
}

static void written(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		must(-1, name);
}

static void exchanged(void)
{
	must(symlink("secret", "fresh"), "symlink");
	must(rename("fresh", "name"), "rename");
}

static void back(void)
{
	must(link("own", "fresh"), "link");
	must(rename("fresh", "name"), "rename");
	unlink("fresh"); /* a rename of one file onto itself does nothing */
}

static void step(char which)
{
	switch (which) {
	case 'e': exchanged(); break;
	case 'b': back(); break;
	case 'm': must(rename("name", "away"), "rename"); must(symlink("secret", "name"), "symlink"); break;
	case 'u': must(unlink("name"), "unlink"); must(symlink("secret", "name"), "symlink"); break;
	case 'o': must(rename("other", "another"), "rename"); must(unlink("another"), "unlink"); written("other", ""); break;
	case 'r': exchanged(); back(); break; /* the name is the same file again */
	}
}

static void attack(void)
{
	char which;

	while (read(0, &which, 1) == 1) {
		if (which == 'f')
			for (;;) {
				exchanged();
				back();
			}
		step(which);
		must(write(1, &which, 1), "answer");
	}
}

static int told, heard;

static void ask(char which)
{
	must(write(told, &which, 1), "ask");
	if (which != 'f' && read(heard, &which, 1) != 1)
		must(-1, "attacker");
}

static pid_t attacker(const char *program)
{
	int to[2], from[2];
	pid_t pid;

	must(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), "pipe");
	pid = fork();
	must(pid, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], 0);
		dup2(from[1], 1);
		execl("/proc/self/exe", program, "attack", (char *)0);
		_exit(2);
	}
	told = to[1], heard = from[0];
	return pid;
}

static ino_t own;

/* 0 if the name is not its own file; otherwise what the open gave. */
static const char *look(char which)
{
	static char bytes[16];
	struct stat st;
	int file;

	if (stat("name", &st) || st.st_ino != own)
		return 0;
	if (which == 's') /* here the program itself does it */
		exchanged();
	else if (which)
		ask(which);
	file = open("name", O_RDONLY);
	if (file < 0)
		return strerrorname_np(errno);
	memset(bytes, 0, sizeof bytes);
	must(read(file, bytes, sizeof bytes - 1), "read");
	close(file);
	return bytes;
}

int main(int argc, char **argv)
{
	static const char steps[] = "nemuors";
	long rounds, fine = 0, stolen = 0, denied = 0, n;
	struct stat st;
	pid_t other;
	const char *found;

	if (argc == 2) {
		attack();
		return 0;
	}
	rounds = atol(argv[2]);
	must(mkdir(argv[1], 0700), "mkdir");
	must(chdir(argv[1]), "chdir");
	other = attacker(argv[0]);
	written("own", "own");
	written("secret", "secret");
	written("other", "");
	must(link("own", "name"), "link");
	must(lstat("own", &st), "lstat");
	own = st.st_ino;
	printf("attacker %d\n", other);
	for (n = 0; steps[n]; n++) {
		found = look(steps[n] == 'n' ? 0 : steps[n]);
		printf("%c %s\n", steps[n], found ? found : "nothing");
		unlink("name");
		must(link("own", "name"), "link");
		unlink("away");
	}
	ask('f');
	for (n = 0; n < MOST && stolen < rounds && denied < rounds; n++) {
		found = look(0);
		if (!found)
			continue;
		fine += !strcmp(found, "own");
		stolen += !strcmp(found, "secret");
		denied += !strcmp(found, "EACCES");
	}
	printf("raced %ld %ld %ld\n", fine, stolen, denied);
	kill(other, SIGKILL);
	return 0;
}
