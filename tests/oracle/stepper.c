/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs a command one instruction at a time and counts how often each of a list of addresses is executed, in any
 * thread; or records which address followed which. It shares nothing with gilk: it is there to check it.
 *
 *   stepper [-s start|entry] [-f] [-1] -a PLACES -o OUT -- COMMAND...    lines "IMAGE HEXADDRESS" in,
 *                                                                     "IMAGE HEXADDRESS COUNT" out
 *   stepper [-s start|entry] [-f] [-1] -e -o OUT -- COMMAND...           "IMAGE HEXFROM IMAGE HEXTO" out
 *   stepper [-s start|entry] [-f] [-1] [-m STEPS] -l -a PLACES -o OUT -- COMMAND...
 *       each arrival at a place, in order: "THREAD PLACE HOW HEXSP HEXHIGHEST IMAGE HEXFROM"; PLACE is a line number from 0,
 *       HOW is c for a call (the stack grew by a word), j for anything else that leads there, b where a program begins,
 *       s for a signal's handler, r for what a handler returns to; HEXSP is the stack pointer on arrival, HEXHIGHEST
 *       the highest that it was since the thread's last arrival anywhere
 *
 * -s entry   counts from the main program's entry point on, after each exec (the loader runs at full speed);
 *            the default is start
 * -f         children of fork are counted too, until they exec
 * -m STEPS   kills the command after so many; its exit status is then 0
 * -n         addresses are not randomized
 * -1         both stay on one processor: shorter steps on an idle machine, longer ones on a busy one
 *
 * Its exit status, or the signal it dies of, is that of the command; 125 is a failure of the stepper itself.
 *
 * What counts: an instruction counts when it completes, so one that a signal handler merely interrupts counts once;
 * one that faults counts each time it is tried. A string instruction with a rep prefix counts once, however many
 * times it repeats.
 *
 * What it cannot do: a restartable sequence never completes under single-step, so such a program does not end; and
 * Linux resets the handler of a program that steps with SIGTRAP blocked, as it is in its own handler of SIGTRAP.
 */
#include "edges.h"
#include "places.h"

#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct thread {
	pid_t id;
	uint64_t pending; /* the instruction about to execute, or 0 */
	uint64_t sp; /* before that instruction */
	uint64_t highest; /* of the stack pointer since the last arrival */
	bool known; /* its first SIGSTOP has been seen */
	bool signalled; /* was resumed with a signal: the next stop may be the handler's first instruction */
};

static struct {
	const char *places_path, *out_path;
	bool from_entry, children, narrow, edges, arrivals, fixed;
	long most;
} options;

static struct places places;
static struct spans spans;
static struct edges edges;
static bool moved = true; /* `spans` may be out of date */
static struct thread *threads;
static long thread_count, steps;
static pid_t main_id;

static struct thread *thread_of(pid_t id)
{
	static long last;

	if (last < thread_count && threads[last].id == id)
		return &threads[last];
	for (last = 0; last < thread_count; last++)
		if (threads[last].id == id)
			return &threads[last];
	threads = realloc(threads, (size_t)(thread_count + 1) * sizeof *threads);
	threads[thread_count++] = (struct thread){ .id = id };
	return &threads[last];
}

static void forget_thread(pid_t id)
{
	for (long i = 0; i < thread_count; i++)
		if (threads[i].id == id)
			threads[i] = threads[--thread_count];
}

static void resume(const struct thread *thread, int number)
{
	/* ESRCH: the thread has been killed in the meantime, which will be reported. */
	if (ptrace(PTRACE_SINGLESTEP, thread->id, 0, number) && errno != ESRCH)
		err(125, "PTRACE_SINGLESTEP");
}

static uint64_t peek(pid_t id, uint64_t address)
{
	errno = 0;
	return (uint64_t)ptrace(PTRACE_PEEKTEXT, id, address, 0);
}

static bool is_repeated_string(pid_t id, uint64_t address)
{
	uint64_t bytes = peek(id, address);
	bool repeated = false;

	for (int i = 0; i < 8; i++, bytes >>= 8) {
		unsigned byte = bytes & 0xff;

		if (byte == 0xf2 || byte == 0xf3)
			repeated = true;
		else if (byte != 0x66 && byte != 0x67 && byte != 0x64 && byte != 0x65 && (byte & 0xf0) != 0x40)
			return repeated && ((byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf) ||
					    (byte >= 0x6c && byte <= 0x6f));
	}
	return false;
}

static void find_images(void)
{
	if (!moved)
		return;
	moved = false;
	spans_read(&spans, main_id);
	edges_forget(&edges);
	if (!options.edges)
		places_resolve(&places, &spans);
}

static void executed(uint64_t address)
{
	long index;

	find_images();
	if (options.edges || !address)
		return;
	index = places_find(&places, address);
	if (index >= 0)
		places.all[index].count++;
}

static void transferred(pid_t id, uint64_t from, uint64_t to)
{
	find_images();
	if (!options.edges || !from || !edges_add(&edges, from, to))
		return;
	/* A system call goes nowhere, except back from a signal handler, which is no edge of the code. */
	if ((peek(id, from) & 0xffff) != 0x050f)
		edges_write(&edges, &spans, from, to);
}

/* Control is at `to`; `how` as the comment at the top says. */
static void arrived(struct thread *thread, uint64_t from, uint64_t to, uint64_t sp, char how)
{
	const struct span *span;
	long index;

	if (!options.arrivals)
		return;
	find_images();
	if (sp > thread->highest)
		thread->highest = sp;
	index = places_find(&places, to);
	if (index < 0)
		return;
	span = spans_find(&spans, from);
	fprintf(edges.out, "%d %ld %c %lx %lx %s %lx\n", thread->id, index, how, sp, thread->highest,
		span ? span->image : "-", span ? from - span->bias : from);
	thread->highest = sp;
}

/* Whether the system call just made may have changed what is mapped where for execution. */
static bool remaps(const struct user_regs_struct *regs)
{
	switch ((long)regs->orig_rax) {
	case SYS_mmap: return (regs->rdx & 4) || (regs->r10 & 16); /* PROT_EXEC, MAP_FIXED */
	case SYS_mprotect: return regs->rdx & 4;
	case SYS_munmap:
	case SYS_mremap: return true;
	default: return false;
	}
}

static char how_of(const struct thread *thread, const struct user_regs_struct *regs)
{
	if ((long)regs->orig_rax == SYS_rt_sigreturn)
		return 'r';
	return regs->rsp == thread->sp - 8 ? 'c' : 'j';
}

static void stepped(struct thread *thread, const struct user_regs_struct *regs)
{
	steps++;
	if (regs->rip == thread->pending && is_repeated_string(thread->id, regs->rip))
		return;
	executed(thread->pending);
	transferred(thread->id, thread->pending, regs->rip);
	moved |= remaps(regs);
	arrived(thread, thread->pending, regs->rip, regs->rsp, how_of(thread, regs));
	thread->pending = regs->rip;
	thread->sp = regs->rsp;
}

/* Handles a signal on its way to the command, which interrupts the pending instruction or is caused by it. */
static void on_signal(struct thread *thread, int number, const siginfo_t *info, uint64_t pc)
{
	bool fault = info->si_code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL);

	if (fault || pc != thread->pending) {
		executed(thread->pending);
		thread->pending = 0;
	}
	thread->signalled = true;
	resume(thread, number);
}

static void on_trap(struct thread *thread)
{
	struct user_regs_struct regs;
	siginfo_t info = { .si_code = TRAP_TRACE };

	if (ptrace(PTRACE_GETREGS, thread->id, 0, &regs))
		return;
	/*
	 * Only these may be something else than the end of a step, or hide it: a handler's first instruction, int3,
	 * a SIGTRAP sent by the program to itself. Asking each time would slow every step down.
	 */
	if (thread->signalled || regs.rip - thread->pending <= 1 || (long)regs.orig_rax >= 0)
		ptrace(PTRACE_GETSIGINFO, thread->id, 0, &info);
	if (info.si_code == SI_KERNEL || info.si_code <= 0) {
		on_signal(thread, SIGTRAP, &info, regs.rip);
		return;
	}
	/* Linux reports the first instruction of a handler by ptrace_notify(SIGTRAP). */
	if (thread->signalled && info.si_code == SIGTRAP) {
		arrived(thread, thread->pending, regs.rip, regs.rsp, 's');
		thread->pending = regs.rip;
		thread->sp = regs.rsp;
	} else {
		stepped(thread, &regs);
	}
	thread->signalled = false;
	resume(thread, 0);
}

static uint64_t entry_point(pid_t id)
{
	char path[64];
	Elf64_auxv_t one;
	uint64_t entry = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/auxv", id);
	fd = open(path, O_RDONLY);
	while (fd >= 0 && !entry && read(fd, &one, sizeof one) == sizeof one)
		entry = one.a_type == AT_ENTRY ? one.a_un.a_val : 0;
	close(fd);
	return entry;
}

/* Lets the loader run, up to a breakpoint at the program's entry. */
static void run_to_entry(void)
{
	uint64_t entry = entry_point(main_id), word = peek(main_id, entry);
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_POKETEXT, main_id, entry, (word & ~0xfful) | 0xcc);
	ptrace(PTRACE_CONT, main_id, 0, 0);
	if (waitpid(main_id, &status, 0) != main_id || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		errx(125, "the command did not reach its entry point");
	ptrace(PTRACE_POKETEXT, main_id, entry, word);
	ptrace(PTRACE_GETREGS, main_id, 0, &regs);
	regs.rip = entry;
	ptrace(PTRACE_SETREGS, main_id, 0, &regs);
}

static void on_exec(struct thread *thread)
{
	struct user_regs_struct regs;
	unsigned long former = 0;
	pid_t id = thread->id;

	if (id != main_id) {
		ptrace(PTRACE_DETACH, id, 0, 0);
		forget_thread(id);
		return;
	}
	ptrace(PTRACE_GETEVENTMSG, id, 0, &former);
	if ((pid_t)former != id)
		forget_thread((pid_t)former);
	if (options.from_entry)
		run_to_entry();
	ptrace(PTRACE_GETREGS, id, 0, &regs);
	thread = thread_of(id);
	thread->pending = options.from_entry ? regs.rip : 0;
	thread->sp = regs.rsp;
	thread->signalled = false;
	moved = true;
	arrived(thread, 0, regs.rip, regs.rsp, 'b');
	resume(thread, 0);
}

static void on_stop(struct thread *thread, int status)
{
	int number = WSTOPSIG(status), event = status >> 16;
	struct user_regs_struct regs = { 0 };
	siginfo_t info;

	if (event == PTRACE_EVENT_EXEC) {
		on_exec(thread);
	} else if (event) {
		resume(thread, 0);
	} else if (number == SIGTRAP) {
		on_trap(thread);
	} else if (number == SIGSTOP && !thread->known) {
		ptrace(PTRACE_GETREGS, thread->id, 0, &regs);
		thread->known = true;
		thread->pending = regs.rip;
		thread->sp = regs.rsp;
		resume(thread, 0);
	} else if (ptrace(PTRACE_GETSIGINFO, thread->id, 0, &info)) {
		resume(thread, 0); /* a group stop */
	} else {
		ptrace(PTRACE_GETREGS, thread->id, 0, &regs);
		on_signal(thread, number, &info, regs.rip);
	}
}

/* Steps until no process is left; returns the wait status of the command. */
static int follow(void)
{
	int status, last = 0;

	while (!options.most || steps < options.most) {
		pid_t id = waitpid(-1, &status, __WALL);

		if (id < 0 && errno == EINTR)
			continue;
		if (id < 0)
			return last;
		if (WIFSTOPPED(status)) {
			on_stop(thread_of(id), status);
			continue;
		}
		forget_thread(id);
		if (id == main_id)
			last = status;
	}
	kill(main_id, SIGKILL); /* the stepper's end kills the others: PTRACE_O_EXITKILL */
	return 0;
}

static void start(char **command)
{
	long follows = PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	struct user_regs_struct regs;
	int status;

	main_id = fork();
	if (!main_id) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		if (options.fixed)
			personality(ADDR_NO_RANDOMIZE);
		execvp(*command, command);
		err(125, "%s", *command);
	}
	if (main_id < 0 || waitpid(main_id, &status, 0) != main_id || !WIFSTOPPED(status))
		errx(125, "the command did not start");
	if (options.children)
		follows |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	if (ptrace(PTRACE_SETOPTIONS, main_id, 0, follows))
		err(125, "PTRACE_SETOPTIONS");
	if (options.from_entry)
		run_to_entry();
	ptrace(PTRACE_GETREGS, main_id, 0, &regs);
	*thread_of(main_id) = (struct thread){ .id = main_id, .pending = regs.rip, .sp = regs.rsp, .known = true };
	arrived(thread_of(main_id), 0, regs.rip, regs.rsp, 'b');
	resume(thread_of(main_id), 0);
}

/* As <linux/sched/types.h> has it, under a name that does not meet libc's. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t slice, deadline, period;
};

/*
 * Two processes that wake each other at every step wait for a whole slice of any other that wants the processor,
 * unless they ask for short slices (Linux 6.12; it does no harm before).
 */
static void ask_for_short_slices(void)
{
	struct scheduling wish = { .size = sizeof wish, .policy = SCHED_OTHER, .slice = 100000 };

	syscall(SYS_sched_setattr, 0, &wish, 0);
}

static void stay_on_one_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)sched_getcpu(), &set);
	sched_setaffinity(0, sizeof set, &set);
}

static char **parse(int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "+s:a:o:m:fe1ln")) != -1;) {
		switch (c) {
		case 's': options.from_entry = !strcmp(optarg, "entry"); break;
		case 'a': options.places_path = optarg; break;
		case 'o': options.out_path = optarg; break;
		case 'f': options.children = true; break;
		case 'e': options.edges = true; break;
		case '1': options.narrow = true; break;
		case 'l': options.arrivals = true; break;
		case 'n': options.fixed = true; break;
		case 'm': options.most = atol(optarg); break;
		default: exit(125);
		}
	}
	if (optind == argc || !options.out_path || !options.places_path == !options.edges)
		errx(125, "usage: stepper [-s start|entry] [-f] [-1] [-n] [-m STEPS] {[-l] -a PLACES | -e} -o OUT -- COMMAND...");
	return argv + optind;
}

/* Ends the way the command did. */
static int end_like(int status)
{
	struct rlimit no_core = { 0, 0 };

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	char **command = parse(argc, argv);
	int status;

	if (!options.edges)
		places_read(&places, options.places_path);
	edges.out = fopen(options.out_path, "w");
	if (!edges.out)
		err(125, "%s", options.out_path);
	ask_for_short_slices();
	if (options.narrow)
		stay_on_one_processor();
	start(command);
	status = follow();
	for (long i = 0; i < places.count && !options.arrivals; i++)
		fprintf(edges.out, "%s %lx %lu\n", places.all[i].image, places.all[i].address, places.all[i].count);
	fprintf(edges.out, "# steps %ld\n", steps);
	if (fclose(edges.out))
		err(125, "%s", options.out_path);
	return end_like(status);
}
