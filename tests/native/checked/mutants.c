/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes checked code at random places, has the driver's checker judge it, and runs what it accepts, with helpers that
 * return and write random numbers. Around the frame and above the stack there is no memory: an access that leaves them
 * ends the program, as do a changed register, a call that is none of a helper, and a way that does not end.
 *
 * Usage: mutants CORPUS SEED COUNT CLAUSETIME [OVERLOOKED]. OVERLOOKED: a verdict that is taken for "sound" (negative
 * control). Prints how many were accepted, how many runs called a helper, and the bits of the helpers with deeds that
 * were called; or what went wrong, with status 1.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#include "ilk/d/check.h"

#define PAGE 4096u
#define ROOM (1u << 16) /* bytes of code; nothing in the corpus is longer than half of it */
#define FRAME_ROOM (3 * PAGE)
#define AROUND (2ull << 30) /* as far as a displacement reaches */
#define CANARY 0xa5
#define STUB 16u
#define NUMBERS 9 /* registers that calls change */

struct source {
	u32 size, frame, groups;
	const u32 *entry;
	const u8 *code;
};

static struct source *sources;
static u32 source_count;

/* xorshift64* */
static u64 state;

static u64 any(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1dull;
}

static u32 below(u32 end)
{
	return (u32)((any() >> 32) * end >> 32);
}

/* Code that is changed. */
static u8 code[ROOM];
static u32 size;
static u32 place[ROOM], places; /* where its instructions begin, as far as they can be decoded */

static u32 length_of(const struct ilk_d_form *form)
{
	return form->size + ilk_d_operand_size(form->operand);
}

static void find_places(void)
{
	const struct ilk_d_form *form;
	u32 at = 0;

	for (places = 0; at < size && (form = ilk_d_form_at(code + at, size - at)); at += length_of(form))
		place[places++] = at;
}

static void flip(u32 at, const struct ilk_d_form *form)
{
	(void)at, (void)form;
	code[below(size)] ^= 1u << below(8);
}

static void change_number(u32 at, const struct ilk_d_form *form)
{
	static const u32 interesting[] = { 0, 1, 7, 8, 127, 128, 8184, 8192, 0x7fffffff, 0x80000000, ~0u, 0xfffffffb };
	u32 number;

	if (ilk_d_operand_size(form->operand) < 4 || form->operand == ILK_D_EXIT)
		return;
	switch (below(3)) {
	case 0:
		number = interesting[below(sizeof(interesting) / 4)];
		break;
	case 1:
		number = (u32)any();
		break;
	default:
		number = below(size);
	}
	memcpy(code + at + form->size, &number, 4);
}

static void replace(u32 at, u32 length, const u8 *by, u32 by_length)
{
	if (size - length + by_length > ROOM - 64 || size - length + by_length == 0)
		return;
	memmove(code + at + by_length, code + at + length, size - at - length);
	memcpy(code + at, by, by_length);
	size += by_length - length;
}

/* An instruction of any form. Returns its length. */
static u32 make(u8 *to)
{
	const struct ilk_d_form *form = &ilk_d_forms[below(ILK_D_FORM_COUNT)];

	memset(to, 0, 16);
	memcpy(to, form->code, form->size);
	if (length_of(form) > form->size)
		to[form->size] = below(2) ? 0x40 : (u8)below(96);
	return length_of(form);
}

static void exchange(u32 at, const struct ilk_d_form *form)
{
	u8 made[32];
	u32 length = make(made);

	replace(at, length_of(form), made, length);
}

static void insert(u32 at, const struct ilk_d_form *form)
{
	u8 made[32];
	u32 length = make(made);

	(void)form;
	replace(at, 0, made, below(8) ? length : 1);
}

static void take_out(u32 at, const struct ilk_d_form *form)
{
	replace(at, length_of(form), 0, 0);
}

static void mutate(const struct source *original)
{
	static void (*const ways[])(u32, const struct ilk_d_form *) = { flip, change_number, exchange, insert, take_out };
	u32 changes = 1 + below(3);

	memcpy(code, original->code, original->size);
	size = original->size;
	while (changes--) {
		u32 at;

		find_places();
		if (!places)
			return;
		at = place[below(places)];
		ways[below(5)](at, ilk_d_form_at(code + at, size - at));
	}
}

/* Memory: code, stubs of helpers behind it, and a frame and a stack with nothing around them. */
static u8 *area, *frames, *stack;
static u8 *frame;
static u32 frame_size;

static u8 *alone(u64 length)
{
	u64 around = AROUND + PAGE;
	u8 *all = mmap(0, length + 2 * around, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED || mprotect(all + around, length, PROT_READ | PROT_WRITE)) {
		perror("mutants");
		exit(2);
	}
	return all + around;
}

void called_helper(void);

/* Helper N: mov $N, %eax; jmp called_helper by its address in the last slot. */
static void make_stubs(void)
{
	u8 *at = area + ROOM;
	u64 target = (u64)called_helper;
	u32 n;

	for (n = 0; n < ILK_D_CALLS; n++, at += STUB) {
		u8 *slot = area + ROOM + STUB * ILK_D_CALLS;
		u32 by = (u32)(slot - (at + 11));

		at[0] = 0xb8;
		memcpy(at + 1, &n, 4);
		at[5] = 0xff;
		at[6] = 0x25; /* jmp *by(%rip) */
		memcpy(at + 7, &by, 4);
	}
	memcpy(at, &target, 8);
}

static u64 stub_of(u32 number)
{
	return (u64)(area + ROOM) + STUB * (u64)number;
}

static void prepare(void)
{
	area = mmap(0, 2 * ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED) {
		perror("mutants");
		exit(2);
	}
	memset(area, 0xcc, 2 * ROOM);
	make_stubs();
	frames = alone(FRAME_ROOM);
	stack = alone(4 * PAGE);
}

/* One run. `bad`: what went wrong. */
static const char *bad;
static bool may_change;
static u64 deeds_done, runs_with_calls;
static bool has_called;
u64 numbers[NUMBERS], entered_at, frame_at, left_at, kept_at, saved_at;

static u64 likely(void)
{
	static const u64 often[] = { 0, 0, 1, 1, ~0ull, 1ull << 63, 0x7fffffff };
	u32 n = below(9);

	return n < 7 ? often[n] : n == 7 ? frame_at : any();
}

void helped(u32 number, u64 given, u64 sp);
void helped(u32 number, u64 given, u64 sp)
{
	u32 n;

	has_called = true;
	if (number >= ILK_D_CALLS || given != frame_at || sp != entered_at - 16)
		bad = "it calls what is no helper, or not as one";
	if (number >= ILK_D_DEEDS) {
		deeds_done |= 1ull << (number - ILK_D_DEEDS);
		if (!may_change)
			bad = "it changes a process";
	}
	for (n = 0; n < NUMBERS; n++)
		numbers[n] = likely();
	if (frame_size)
		frame[below(frame_size)] = (u8)any();
}

void enter(const u8 *at);
void leave(void);
/*
 * enter: keep the C registers, set known ones, and call the code on its own stack; behind it, compare. kept_at: how
 * many registers differ.
 */
__asm__(".text\n"
	"enter: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"mov %rsp, saved_at(%rip)\n mov %rdi, %rax\n mov frame_at(%rip), %rbx\n mov entered_at(%rip), %rsp\n"
	"mov $0xb0, %ebp\n mov $0xc0, %r12d\n mov $0xd0, %r13d\n mov $0xe0, %r14d\n mov $0xf0, %r15d\n"
	"call *%rax\n"
	"xor %eax, %eax\n"
	"cmp frame_at(%rip), %rbx\n setne %al\n mov %eax, %ecx\n"
	"cmp entered_at(%rip), %rsp\n setne %al\n add %eax, %ecx\n"
	"cmp $0xb0, %rbp\n setne %al\n add %eax, %ecx\n"
	"cmp $0xc0, %r12\n setne %al\n add %eax, %ecx\n"
	"cmp $0xd0, %r13\n setne %al\n add %eax, %ecx\n"
	"cmp $0xe0, %r14\n setne %al\n add %eax, %ecx\n"
	"cmp $0xf0, %r15\n setne %al\n add %eax, %ecx\n"
	"mov %rcx, kept_at(%rip)\n"
	"mov saved_at(%rip), %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
	"leave: ret\n"
	"called_helper: push %rbp\n mov %rsp, %rbp\n mov %rdi, %rsi\n mov %eax, %edi\n lea 8(%rbp), %rdx\n"
	"and $-16, %rsp\n call helped\n mov %rbp, %rsp\n pop %rbp\n"
	"lea numbers(%rip), %r11\n"
	"mov (%r11), %rax\n mov 8(%r11), %rcx\n mov 16(%r11), %rdx\n mov 24(%r11), %rsi\n mov 32(%r11), %rdi\n"
	"mov 40(%r11), %r8\n mov 48(%r11), %r9\n mov 56(%r11), %r10\n mov 64(%r11), %r11\n ret\n");

static const struct source *from;
static u64 number;

static void tell(void)
{
	u32 n;

	printf("mutant %llu of program %ld, frame %u: %s\n", (unsigned long long)number, (long)(from - sources),
	       from->frame, bad);
	for (n = 0; n < size; n++)
		printf("%02x", code[n]);
	printf("\n");
}

/* The code has run into nothing, or does not end: the state cannot be trusted any more. */
static void caught(int signal_number, siginfo_t *info, void *context)
{
	static char text[128];

	(void)context;
	snprintf(text, sizeof(text), "%s at %p", signal_number == SIGALRM ? "it does not end" : strsignal(signal_number),
		 info->si_addr);
	bad = text;
	tell();
	fflush(stdout);
	_exit(1);
}

static void catch_all(void)
{
	static const int numbers_of[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGALRM };
	static u8 other[1 << 16];
	stack_t away = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction act = { .sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	u32 n;

	sigaltstack(&away, 0);
	for (n = 0; n < sizeof(numbers_of) / sizeof(numbers_of[0]); n++)
		sigaction(numbers_of[n], &act, 0);
}

static bool is_canary(const u8 *from, const u8 *to)
{
	for (; from < to; from++)
		if (*from != CANARY)
			return false;
	return true;
}

/* The frame ends, or begins, where there is no memory. */
static void place_frame(void)
{
	u32 n;

	frame_size = from->frame;
	frame = below(2) ? frames : frames + FRAME_ROOM - (frame_size + 7) / 8 * 8;
	frame_at = (u64)frame;
	memset(frames, CANARY, FRAME_ROOM);
	for (n = 0; n + 8 <= frame_size; n += 8) {
		u64 number = n % 64 ? 0 : likely();

		memcpy(frame + n, &number, 8);
	}
}

static void set_alarm(long seconds)
{
	struct itimerval limit = { .it_value = { .tv_sec = seconds } };

	setitimer(ITIMER_REAL, &limit, 0);
}

static void run(void)
{
	u8 *top = stack + 4 * PAGE - 64;

	memcpy(area, code, size);
	memset(area + size, 0xcc, 64);
	ilk_d_link(area, size, (u64)area, stub_of, (u64)(area + 2 * ROOM - STUB));
	place_frame();
	memset(top, CANARY, 64);
	entered_at = (u64)top;
	has_called = false;
	enter(area + from->entry[below(from->groups)]);
	runs_with_calls += has_called;
	if (kept_at)
		bad = "it changes a register";
	else if (!is_canary(frames, frame) || !is_canary(frame + frame_size, frames + FRAME_ROOM))
		bad = "it writes beside its frame";
	else if (!is_canary(top, top + 64))
		bad = "it writes to the stack";
}

/* The corpus. */
static void *take(u8 **at, u64 bytes)
{
	void *found = *at;

	*at += bytes;
	return found;
}

static void load(const char *path)
{
	static u8 corpus[16 << 20];
	FILE *file = fopen(path, "rb");
	u8 *at = corpus;
	u32 n;

	if (!file || !fread(corpus, 1, sizeof(corpus), file)) {
		perror(path);
		exit(2);
	}
	fclose(file);
	source_count = *(u32 *)take(&at, 4);
	sources = calloc(source_count, sizeof(*sources));
	for (n = 0; n < source_count; n++) {
		memcpy(&sources[n], take(&at, 12), 12);
		sources[n].entry = take(&at, 4 * (u64)sources[n].groups);
		sources[n].code = take(&at, (sources[n].size + 3ull) / 4 * 4);
	}
}

static bool is_accepted(u32 clausetime, u32 overlooked)
{
	static u32 ways[ROOM];
	struct ilk_d_code c = { code, size, from->frame, clausetime, from->groups, may_change, from->entry, ways, 0 };
	u32 verdict = ilk_d_check(&c);

	return verdict == ILK_D_SOUND || verdict == overlooked;
}

int main(int argc, char **argv)
{
	u32 clausetime = argc > 4 ? (u32)atoi(argv[4]) : 0, overlooked = argc > 5 ? (u32)atoi(argv[5]) : 0;
	u64 count = argc > 3 ? strtoull(argv[3], 0, 10) : 0, accepted = 0;

	if (argc < 5)
		return 2;
	load(argv[1]);
	state = strtoull(argv[2], 0, 10) * 2 + 1;
	prepare();
	area[2 * ROOM - STUB] = 0xc3; /* leave */
	catch_all();
	for (number = 0; number < count && !bad; number++) {
		if (number % 4096 == 0)
			set_alarm(300);
		from = &sources[below(source_count)];
		mutate(from);
		may_change = below(2);
		if (!is_accepted(clausetime, overlooked))
			continue;
		accepted++;
		run();
		if (bad)
			tell();
	}
	if (!bad)
		printf("%llu %llu %llx\n", (unsigned long long)accepted, (unsigned long long)runs_with_calls,
		       (unsigned long long)deeds_done);
	return !!bad;
}
