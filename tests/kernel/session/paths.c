/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * paths DIRECTORY FILE: opens files of all kinds, writes to FILE what /proc says of each, and asks for the flags of each.
 * Then does so with some files under another root, and with one whose directory another thread renames meanwhile.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RACES 2000

static int links, infos;
static FILE *out;
static volatile int over;

static int fine(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static void told(int fd)
{
	char name[16], link[4096], info[512];
	int at, length;

	snprintf(name, sizeof(name), "%d", fd);
	length = fine(readlinkat(links, name, link, sizeof(link) - 1), "readlinkat");
	link[length] = 0;
	at = fine(openat(infos, name, O_RDONLY), "fdinfo");
	length = fine(read(at, info, sizeof(info) - 1), "read");
	close(at);
	info[length] = 0;
	for (length = 0; info[length]; length++)
		if (info[length] == '\n' || info[length] == '\t')
			info[length] = ' ';
	fprintf(out, "%d|%s|%s\n", fd, link, info);
	fcntl(fd, F_GETFL);
}

static void *renames(void *unused)
{
	while (!over) {
		rename("ooooooo", "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
		rename("nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "ooooooo");
	}
	return unused;
}

static int made(const char *name, int flags)
{
	return fine(open(name, flags | O_CREAT, 0600), name);
}

static int below(int levels, const char *name)
{
	int i, before = fine(open(".", O_RDONLY), "."), fd;

	for (i = 0; i < levels; i++) {
		fine(mkdir(name, 0700), name);
		fine(chdir(name), name);
	}
	fd = made("end", O_RDWR);
	fine(fchdir(before), "fchdir");
	close(before);
	return fd;
}

int main(int argc, char **argv)
{
	char longest[240];
	int kinds[32], count = 0, pair[2], i, racing;
	pthread_t thread;

	if (argc != 3 || !(out = fopen(argv[2], "w")))
		return 2;
	links = fine(open("/proc/self/fd", O_RDONLY | O_DIRECTORY), "fd");
	infos = fine(open("/proc/self/fdinfo", O_RDONLY | O_DIRECTORY), "fdinfo");
	fine(chdir(argv[1]), argv[1]);
	kinds[count++] = made("plain", O_RDWR);
	lseek(kinds[0], 4711, SEEK_SET);
	kinds[count++] = made("with blank", O_WRONLY | O_APPEND | O_SYNC);
	kinds[count++] = made("gone", O_RDWR | O_NONBLOCK);
	unlink("gone");
	kinds[count++] = fine(open("/", O_RDONLY), "/");
	kinds[count++] = fine(open("/proc/version", O_RDONLY | O_CLOEXEC), "version");
	kinds[count++] = fine(open("/proc", O_PATH), "/proc");
	kinds[count++] = fine(open("/dev/null", O_RDWR), "null");
	kinds[count++] = fine(open("/proc/self/ns/net", O_RDONLY), "ns");
	fine(pipe2(pair, O_NONBLOCK), "pipe");
	kinds[count++] = pair[0];
	kinds[count++] = pair[1];
	kinds[count++] = fine(socket(AF_INET, SOCK_STREAM, 0), "socket");
	kinds[count++] = fine(epoll_create1(0), "epoll");
	kinds[count++] = fine(eventfd(0, 0), "eventfd");
	kinds[count++] = fine(memfd_create("some", 0), "memfd");
	kinds[count++] = below(12, "level");
	kinds[count++] = below(60, "d");
	memset(longest, 'l', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	kinds[count++] = below(2, longest);
	fine(mkdir("mounted", 0700), "mounted");
	fine(mount("none", "mounted", "tmpfs", 0, ""), "mount");
	kinds[count++] = made("mounted/inner", O_RDWR);
	for (i = 0; i < count; i++)
		told(kinds[i]);
	told(fine(open(".", O_RDONLY), "."));
	fcntl(-1, F_GETFL);
	fcntl(1000, F_GETFL);
	fine(mkdir("ooooooo", 0700), "mkdir");
	racing = made("ooooooo/racing", O_RDWR);
	if (pthread_create(&thread, 0, renames, 0))
		return 3;
	for (i = 0; i < RACES; i++)
		fcntl(racing, F_GETFD);
	over = 1;
	pthread_join(thread, 0);
	fine(chroot("."), "chroot");
	told(kinds[0]);
	told(kinds[4]);
	told(kinds[count - 1]);
	told(made("/inside", O_RDWR));
	return fclose(out);
}
