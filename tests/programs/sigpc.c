/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks the program counter that signal handlers see: for a fault, the faulting
 * instruction; for a profiler's tick, always code that was mapped from a file.
 */
#include "check.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

long sigpc_load(const long *where);
extern char sigpc_fault[], sigpc_after[], sigpc_end[];

/* One load that faults, among other blocks; rax is -7 if the handler steps over it. */
__asm__(".text\n.globl sigpc_load\n.type sigpc_load,@function\nsigpc_load:\n"
	"\t.cfi_startproc\n"
	"\tmov $-7, %rax\n\ttest %rdi, %rdi\n\tjnz sigpc_fault\n\tmov $-9, %rax\n"
	"sigpc_fault:\n\tmov (%rdi), %rax\n"
	"sigpc_after:\n\tret\n"
	"\t.cfi_endproc\nsigpc_end:\n.size sigpc_load,.-sigpc_load\n");

static sigjmp_buf escape;
static volatile sig_atomic_t jump_out, faults;

static void on_fault(int number, siginfo_t *info, void *raw)
{
	ucontext_t *context = raw;
	greg_t *rip = &context->uc_mcontext.gregs[REG_RIP];

	CHECK(number == SIGSEGV && info->si_addr == NULL, "fault at %p, not at 0", info->si_addr);
	CHECK(*rip == (greg_t)sigpc_fault, "the pc is %#llx, not %p", *rip, (void *)sigpc_fault);
	faults++;
	if (jump_out)
		siglongjmp(escape, 5);
	*rip = (greg_t)sigpc_after;
}

static void check_faults(long amount)
{
	long value = 42, before = faults;

	for (volatile long i = 0; i < amount; i++) {
		CHECK(sigpc_load(&value) == 42, "a good load is wrong");
		jump_out = 0;
		CHECK(sigpc_load(NULL) == -9, "a load stepped over is wrong");
		jump_out = 1;
		if (!sigsetjmp(escape, 1)) {
			sigpc_load(NULL);
			CHECK(0, "siglongjmp did not leave");
		}
	}
	CHECK(faults == before + 2 * amount, "%ld faults, of %ld", faults - before, 2 * amount);
}

struct range {
	unsigned long start, end;
};

static struct range text[64];
static int ranges;
static volatile sig_atomic_t ticks, outside;
static volatile greg_t stray;

/* Reads the ranges of executable files and of the vdso; only once, as code exchanged for a copy has no file. */
static void read_ranges(void)
{
	char line[512], permissions[8], path[256];
	FILE *maps = fopen("/proc/self/maps", "r");

	CHECK(maps, "no /proc/self/maps");
	for (ranges = 0; ranges < 64 && fgets(line, sizeof line, maps);) {
		struct range *range = &text[ranges];

		*path = 0;
		sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &range->start, &range->end, permissions, path);
		ranges += permissions[2] == 'x' && (!strcmp(path, "[vdso]") || (*path == '/' && !strstr(path, "memfd:")));
	}
	fclose(maps);
}

static void on_tick(int number, siginfo_t *info, void *raw)
{
	greg_t rip = ((ucontext_t *)raw)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	ticks++;
	for (int i = 0; i < ranges; i++)
		if ((unsigned long)rip >= text[i].start && (unsigned long)rip < text[i].end)
			return;
	outside++;
	stray = rip;
}

NOINLINE unsigned hot(unsigned x);
NOINLINE unsigned hot(unsigned x)
{
	char text_of[32];

	for (int i = 0; i < 8; i++)
		x = x & 1 ? x * 3 + 1 : x >> 1;
	memset(text_of, (int)x, sizeof text_of);
	BARRIER();
	return x + strnlen(text_of, sizeof text_of);
}

static void check_ticks(void)
{
	struct itimerval every = { .it_interval = { 0, 1000 }, .it_value = { 0, 1000 } }, never = { 0 };
	int enough = ticks + 15;

	if (!ranges)
		read_ranges();
	setitimer(ITIMER_PROF, &every, NULL);
	for (unsigned x = 1; ticks < enough; x++)
		hot(x);
	setitimer(ITIMER_PROF, &never, NULL);
}

static void one_round(long amount)
{
	check_faults(amount);
	check_ticks();
	CHECK(!outside, "%d of %d ticks outside mapped files, the last at %#llx", outside, ticks, stray);
}

int main(int argc, char **argv)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction tick = { .sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGPROF, &tick, NULL);
	return run_rounds(argc, argv, "sigpc", 1000, one_round);
}
