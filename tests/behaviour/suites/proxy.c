// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Stands in for a program in its test suite: has the zygote that listens at
 * SOCKET (a macro, for suites make copies of the program) fork a child that
 * becomes the program with everything an execve would have handed on, and ends
 * as that child ends.
 *
 * "proxy --zygote-quit" ends the zygote.
 */
#include "zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static struct zygote_request request;

static void fail(const char *what)
{
	dprintf(2, "proxy: %s: %s\n", what, strerror(errno));
	_exit(126);
}

static void forward(int number)
{
	int kept = errno;

	kill(child, number);
	errno = kept;
}

static int reach(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail(address.sun_path);
	return fd;
}

/* Lists the open descriptors of this process, except `own`. */
static void list_fds(int own, int *found)
{
	DIR *directory = opendir("/proc/self/fd");

	if (!directory)
		fail("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(directory));) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == own || fd == dirfd(directory))
			continue;
		if (request.fds == ZYGOTE_FDS)
			fail("too many files");
		request.fd[request.fds] = fd;
		found[1 + request.fds++] = fd;
	}
	closedir(directory);
}

static void note_state(void)
{
	struct sigaction action;

	request.mask = umask(0);
	umask(request.mask);
	request.group = getpgrp();
	request.leads = getsid(0) == getpid();
	sigemptyset(&request.ignored);
	for (int number = 1; number < NSIG; number++) {
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			sigaddset(&request.ignored, number);
	}
	for (int i = 0; i < ZYGOTE_LIMITS; i++)
		getrlimit(i, &request.limit[i]);
}

static void send_request(int to, const int *files)
{
	char space[CMSG_SPACE(sizeof(int) * (ZYGOTE_FDS + 1))] = { 0 };
	struct iovec part = { &request, sizeof(request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = space };
	size_t length = sizeof(int) * (request.fds + 1);
	struct cmsghdr *head = (struct cmsghdr *)space;

	message.msg_controllen = CMSG_SPACE(length);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(head), files, length);
	if (sendmsg(to, &message, 0) != sizeof(request))
		fail("send");
}

static void send_strings(int to, char **strings)
{
	for (; *strings; strings++) {
		const char *from = *strings;
		size_t left = strlen(from) + 1;

		while (left) {
			ssize_t done = write(to, from, left);

			if (done < 0)
				fail("write");
			from += done;
			left -= done;
		}
	}
}

static unsigned int measure(char **strings)
{
	unsigned int number = 0;

	for (; strings[number]; number++)
		request.bytes += strlen(strings[number]) + 1;
	return number;
}

static void forward_signals(void)
{
	struct sigaction action = { .sa_handler = forward, .sa_flags = SA_RESTART };

	for (int number = 1; number < NSIG; number++) {
		if (number != SIGCHLD && number != SIGPIPE && !sigismember(&request.ignored, number))
			sigaction(number, &action, NULL);
	}
}

/* End as the child did; a core would be the wrong program's. */
static void end_as(int status)
{
	struct rlimit none = { 0, 0 };
	sigset_t one;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	setrlimit(RLIMIT_CORE, &none);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	raise(WTERMSIG(status));
	_exit(128 + WTERMSIG(status));
}

static struct zygote_answer hear(int from)
{
	struct zygote_answer answer;
	ssize_t done;

	do {
		done = read(from, &answer, sizeof(answer));
	} while (done < 0 && errno == EINTR);
	if (done != sizeof(answer))
		fail("the zygote is gone");
	return answer;
}

int main(int argc, char **argv, char **environment)
{
	int files[ZYGOTE_FDS + 1], server = reach();
	sigset_t all;

	if (argc == 2 && !strcmp(argv[1], "--zygote-quit"))
		request.quit = 1;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &request.blocked);
	list_fds(server, files);
	files[0] = open(".", O_PATH | O_CLOEXEC);
	if (files[0] < 0)
		fail("working directory");
	note_state();
	request.argc = measure(argv);
	request.envc = measure(environment);
	send_request(server, files);
	if (request.quit)
		return 0;
	send_strings(server, argv);
	send_strings(server, environment);
	child = hear(server).pid;
	/* If these files stayed open here, readers of pipes would not see their ends. */
	for (unsigned int i = 0; i <= request.fds; i++)
		close(files[i]);
	forward_signals();
	sigprocmask(SIG_SETMASK, &request.blocked, NULL);
	for (;;) {
		struct zygote_answer answer = hear(server);

		if (WIFSTOPPED(answer.status))
			raise(SIGSTOP);
		else if (!WIFCONTINUED(answer.status))
			end_as(answer.status);
	}
}
