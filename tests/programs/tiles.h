/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The registers of AMX: eight tiles of a kilobyte each, and their configuration. */
#ifndef TILES_H
#define TILES_H

#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18		  /* the number of that part of the extended state */

struct tiles {
	uint8_t configuration[64]; /* Intel's manual, LDTILECFG: palette, bytes of a row, rows */
	uint8_t tile[8][1024];
};

/*
 * tiles_load(in) and tiles_store(out) move configuration and tiles; the latter leaves them empty. tiles_hold(in, out,
 * number) loads them, calls tiles_quiet(), which has several blocks and touches none of them, sends the process the signal
 * of that number, unless it is 0, and stores them.
 */
extern void tiles_load(const struct tiles *in), tiles_store(struct tiles *out), tiles_quiet(void);
extern void tiles_hold(const struct tiles *in, struct tiles *out, int number);
__asm__(".text\n.globl tiles_load\n.type tiles_load, @function\n"
	"tiles_load: mov $64, %eax\n ldtilecfg (%rdi)\n"
	".irp r,0,1,2,3,4,5,6,7\n tileloadd 64+1024*\\r(%rdi,%rax), %tmm\\r\n.endr\n"
	"ret\n.size tiles_load, .-tiles_load\n"
	".globl tiles_store\n.type tiles_store, @function\n"
	"tiles_store: mov $64, %eax\n sttilecfg (%rdi)\n"
	".irp r,0,1,2,3,4,5,6,7\n tilestored %tmm\\r, 64+1024*\\r(%rdi,%rax)\n.endr\n"
	"tilerelease\n ret\n.size tiles_store, .-tiles_store\n"
	".globl tiles_quiet\n.type tiles_quiet, @function\n"
	"tiles_quiet: mov $3, %ecx\n"
	"1: lea (%rcx,%rcx,2), %eax\n test $1, %al\n jz 2f\n inc %eax\n 2: dec %ecx\n jnz 1b\n ret\n"
	".size tiles_quiet, .-tiles_quiet\n"
	".globl tiles_hold\n.type tiles_hold, @function\n"
	"tiles_hold: push %rsi\n push %rdx\n"
	"call tiles_load\n call tiles_quiet\n"
	"pop %rsi\n test %esi, %esi\n jz 1f\n"
	"mov $39, %eax\n syscall\n mov %eax, %edi\n mov $62, %eax\n syscall\n" /* kill(getpid(), number) */
	"1: pop %rdi\n jmp tiles_store\n.size tiles_hold, .-tiles_hold\n");

/* Whether this process may use tiles: a process has to ask for them first. */
static inline int tiles_allowed(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 &&
	       !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}

static inline void tiles_fill(struct tiles *all, uint64_t state)
{
	memset(all, 0, sizeof *all);
	all->configuration[0] = 1;
	for (int i = 0; i < 8; i++) {
		all->configuration[16 + 2 * i] = 64;
		all->configuration[48 + i] = 16;
	}
	for (unsigned int i = 0; i < sizeof all->tile; i++)
		((uint8_t *)all->tile)[i] = (uint8_t)((state = state * 6364136223846793005UL + 1442695040888963407UL) >> 56);
}

/* Whether tiles come through a call, and a signal of that number, as they were. */
static inline int tiles_last(uint64_t state, int number)
{
	struct tiles in, out;

	tiles_fill(&in, state);
	memset(&out, 0, sizeof out);
	tiles_hold(&in, &out, number);
	return !memcmp(&in, &out, sizeof in);
}

#endif
