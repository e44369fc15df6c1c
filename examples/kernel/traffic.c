/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A server and its clients on the loopback interface (GILK, section 4.4).
 *
 *	traffic CLIENTS BURSTS
 *
 * To each client the server sends so many bursts of messages, each a packet of
 * its own, and pauses in between. Bursts and pauses are Pareto distributed:
 * most are short, and some so long that the traffic is bursty on every scale.
 * The messages are the same every time; their times depend on the machine.
 */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT 4711
#define SHAPE 1.4
#define PAUSE 1500.0		/* microseconds, the shortest */
#define LONGEST 200000.0
#define MOST 60			/* messages in a burst */

static double pareto(double least, double most)
{
	double value = least / pow(1.0 - drand48(), 1.0 / SHAPE);

	return value < most ? value : most;
}

static int fail(const char *what)
{
	perror(what);
	exit(1);
}

static void client(const struct sockaddr_in *server)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char message[2048];

	if (fd < 0 || connect(fd, (const void *)server, sizeof(*server)))
		fail("connect");
	while (read(fd, message, sizeof(message)) > 0)
		;
	exit(0);
}

static void serve(int fd, int number, int bursts)
{
	static char message[1400];
	int on = 1;

	srand48(number);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (int i = 0; i < bursts; i++) {
		for (int left = pareto(1.0, MOST); left > 0; left--)
			if (write(fd, message, 200 + lrand48() % 1200) < 0)
				fail("write");
		usleep(pareto(PAUSE, LONGEST));
	}
	exit(0);
}

int main(int count, char *words[])
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), clients, on = 1, status, bad = 0;

	if (count != 3)
		return 2;
	clients = atoi(words[1]);
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (void *)&here, sizeof(here)) || listen(listener, clients))
		fail("listen");
	for (int i = 0; i < clients; i++) {
		int fd;

		if (fork() == 0)
			client(&here);
		fd = accept(listener, NULL, NULL);
		if (fork() == 0)
			serve(fd, i, atoi(words[2]));
		close(fd);
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
