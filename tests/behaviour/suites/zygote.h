/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The messages that proxy.c sends to zygote.c over a stream socket, and the answers.
 *
 * One struct zygote_request with file descriptors attached (the working
 * directory first, then `fds` more), then `bytes` bytes: `argc` and then `envc`
 * strings, each with its NUL. Answers are struct zygote_answer: first the pid,
 * then wait statuses until the process has ended.
 */
#ifndef ZYGOTE_H
#define ZYGOTE_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define ZYGOTE_FDS 200 /* SCM_MAX_FD is 253 */
#define ZYGOTE_LIMITS 16

struct zygote_request {
	unsigned int quit; /* end the server; the rest is ignored */
	unsigned int leads; /* the caller leads its session, so the child gets one of its own */
	unsigned int argc, envc, bytes, fds;
	int fd[ZYGOTE_FDS]; /* the numbers they have in the caller */
	mode_t mask;
	pid_t group;
	sigset_t ignored, blocked;
	struct rlimit limit[ZYGOTE_LIMITS];
};

struct zygote_answer {
	pid_t pid;
	int status; /* as waitpid gives it; 0 in the first answer */
};

#endif
