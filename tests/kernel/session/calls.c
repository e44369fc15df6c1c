/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes system calls that nothing else on an idle machine makes, a given number of times each. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/syscall.h>
#include <unistd.h>

static int messages(long times)
{
	struct { long type; char text[100]; } message = { 1, "a message" };
	int queue = msgget(IPC_PRIVATE, 0600);

	if (queue < 0)
		return 1;
	for (long i = 0; i < times; i++) {
		if (msgsnd(queue, &message, sizeof message.text, 0))
			return 2;
		if (msgrcv(queue, &message, sizeof message.text, 1, 0) != sizeof message.text)
			return 3;
	}
	return msgctl(queue, IPC_RMID, NULL) ? 4 : 0;
}

int main(int argc, char **argv)
{
	long times = argc > 1 ? atol(argv[1]) : 1;

	for (long i = 0; i < times; i++)
		syscall(SYS_getpgid, 0x1000 + i);
	return messages(times);
}
