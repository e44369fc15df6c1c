// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Preloaded, makes a program a server of itself: right before its own code
 * would run it waits at the socket $ZYGOTE for requests (zygote.h), and for
 * each one forks a child that becomes the program. Instruments that are in the
 * server are in every child, so they need to be planned and put in only once.
 */
#include "zygote.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ABOVE 600 /* file descriptors of ours, out of the way of the program's */

typedef int entry(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static char proxy[256]; /* the program's stand-in */

static void die(const char *what)
{
	dprintf(2, "zygote: %s: %s\n", what, strerror(errno));
	_exit(125);
}

/* perl starts itself again by this name, and must start the proxy instead. */
ssize_t readlink(const char *path, char *buffer, size_t size)
{
	size_t length = strlen(proxy);

	if (!length || strcmp(path, "/proc/self/exe"))
		return syscall(SYS_readlink, path, buffer, size);
	if (length > size)
		length = size;
	memcpy(buffer, proxy, length);
	return length;
}

static int out_of_the_way(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, ABOVE);

	if (moved < 0)
		die("too few file descriptors");
	close(fd);
	return moved;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		die(path);
	strcpy(address.sun_path, path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 128) < 0)
		die(path);
	return out_of_the_way(fd);
}

/* The received files are moved out of the way; the working directory is files[0]. */
static int receive(int from, struct zygote_request *request, int *files)
{
	char space[CMSG_SPACE(sizeof(int) * (ZYGOTE_FDS + 1))];
	struct iovec part = { request, sizeof(*request) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)
	};
	struct cmsghdr *head;

	if (recvmsg(from, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof(*request))
		return 0;
	head = CMSG_FIRSTHDR(&message);
	if (!head || head->cmsg_len != CMSG_LEN(sizeof(int) * (request->fds + 1)))
		return 0;
	memcpy(files, CMSG_DATA(head), sizeof(int) * (request->fds + 1));
	for (unsigned int i = 0; i <= request->fds; i++)
		files[i] = out_of_the_way(files[i]);
	return 1;
}

/* argv, NULL, envp, NULL, and behind them the strings, as the kernel lays them out. */
static char **receive_strings(int from, const struct zygote_request *request)
{
	size_t heads = sizeof(char *) * (request->argc + request->envc + 2);
	char **table = mmap(NULL, heads + request->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *strings = (char *)table + heads;

	if (table == MAP_FAILED)
		die("memory");
	if (recv(from, strings, request->bytes, MSG_WAITALL) != (ssize_t)request->bytes)
		die("strings");
	for (unsigned int i = 0; i < request->argc + request->envc; i++) {
		table[i + (i >= request->argc)] = strings;
		strings += strlen(strings) + 1;
	}
	return table;
}

static void take_over(const struct zygote_request *request, const int *files)
{
	if (fchdir(files[0]) < 0)
		die("working directory");
	close(files[0]);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (unsigned int i = 0; i < request->fds; i++) {
		if (dup2(files[i + 1], request->fd[i]) < 0)
			_exit(125);
		close(files[i + 1]);
	}
	if (request->leads)
		setsid();
	else
		setpgid(0, request->group);
	umask(request->mask);
	for (int number = 1; number < NSIG; number++)
		signal(number, sigismember(&request->ignored, number) ? SIG_IGN : SIG_DFL);
	for (int i = 0; i < ZYGOTE_LIMITS; i++)
		setrlimit(i, &request->limit[i]);
	sigprocmask(SIG_SETMASK, &request->blocked, NULL);
}

static void arrived(int number)
{
	(void)number;
}

static int tell(int to, pid_t pid, int status)
{
	struct zygote_answer answer = { pid, status };

	return send(to, &answer, sizeof(answer), MSG_NOSIGNAL) == sizeof(answer);
}

/* Logs a line for each process that has ended, since the suite may not notice one that ended badly. */
static void note_end(int status)
{
	char path[sizeof(proxy) + 8], line[16];
	int length = snprintf(line, sizeof(line), "%d\n", status), fd;

	snprintf(path, sizeof(path), "%s.log", proxy);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, length) != length)
		_exit(125);
	close(fd);
}

/* Reports the child's state until it has ended. When the proxy is gone, the child is killed too. */
static void watch(int to, pid_t pid)
{
	struct pollfd proxy_gone = { .fd = to }; /* POLLHUP needs no request */
	sigset_t none;
	int status;

	sigemptyset(&none);
	for (;;) {
		while (waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == pid) {
			if (WIFEXITED(status) || WIFSIGNALED(status)) {
				note_end(status);
				tell(to, pid, status);
				_exit(0);
			}
			tell(to, pid, status);
		}
		if (ppoll(&proxy_gone, 1, NULL, &none) > 0) {
			kill(pid, SIGKILL);
			proxy_gone.fd = -1;
		}
	}
}

/* In a process of its own: returns in the child, with its argv. */
static char **serve(int connection, struct zygote_request *request, const int *files)
{
	struct sigaction action = { .sa_handler = arrived };
	sigset_t chld;
	pid_t pid;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	sigaction(SIGCHLD, &action, NULL);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		char **argv = receive_strings(connection, request);

		tell(connection, getpid(), 0);
		close(connection);
		take_over(request, files);
		return argv;
	}
	for (unsigned int i = 0; i <= request->fds; i++)
		close(files[i]);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	watch(connection, pid);
	return NULL;
}

static char **serve_all(int listening, unsigned int *argc)
{
	static struct zygote_request request;
	int files[ZYGOTE_FDS + 1];

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int connection = accept4(listening, NULL, NULL, SOCK_CLOEXEC);

		if (connection < 0)
			continue;
		connection = out_of_the_way(connection);
		if (!receive(connection, &request, files)) {
			close(connection);
			continue;
		}
		if (request.quit)
			_exit(0);
		if (fork() == 0) {
			close(listening);
			*argc = request.argc;
			return serve(connection, &request, files);
		}
		close(connection);
		for (unsigned int i = 0; i <= request.fds; i++)
			close(files[i]);
	}
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	entry *real = (entry *)dlsym(RTLD_NEXT, "__libc_start_main");
	const char *path = getenv("ZYGOTE");

	if (path) {
		unsigned int number;
		int listening = listen_at(path);
		char *slash;

		if (strlen(path) >= sizeof(proxy))
			die(path);
		memcpy(proxy, path, strlen(path) - strlen(".socket"));
		argv = serve_all(listening, &number);
		argc = number;
		environ = argv + argc + 1;
		program_invocation_name = argv[0];
		slash = argv[0] ? strrchr(argv[0], '/') : NULL;
		program_invocation_short_name = slash ? slash + 1 : argv[0];
	}
	return real(main, argc, argv, init, fini, rtld_fini, stack_end);
}
