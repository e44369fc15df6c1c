/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The driver's checker, linker and helpers of D programs (native/ilk/d) in a program of user space: what it checks and
 * links runs there as in the kernel.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

/* The C library has these for itself, as other types of the same size. */
#define __u64 abi_u64
#define __s64 abi_s64
#include "abi/ilk_d_abi.h"
#undef __u64
#undef __s64

/* Instead of task.h: the task is who runs the test. */
#define ILK_D_TASK_H
#define ILK_D_NAME 16
enum { ILK_D_PARENT, ILK_D_UID, ILK_D_GID, ILK_D_EUID, ILK_D_EGID, ILK_D_THREAD, ILK_D_PROCESSOR, ILK_D_IDENTITIES };

#include <signal.h>
#include <unistd.h>

static char task_name[ILK_D_NAME] = "dtrace";

static inline const char *ilk_d_task_name(void)
{
	return task_name;
}

static inline u64 ilk_d_task_number(u64 which)
{
	switch (which) {
	case ILK_D_PARENT:
		return (u64)getppid();
	case ILK_D_UID:
		return getuid();
	case ILK_D_GID:
		return getgid();
	case ILK_D_EUID:
		return geteuid();
	case ILK_D_EGID:
		return getegid();
	case ILK_D_THREAD:
		return (u64)task_name;
	}
	return 0;
}

/* Its ancestors are not looked for. */
static inline bool ilk_d_is_progeny(u64 process)
{
	return process == (u64)getpid();
}

/* As at BEGIN: nothing is done to the client. Helpers that are called by themselves are called in some process. */
struct ilk_deeds;
static bool is_client;

/* A stack of three. */
static u32 ilk_d_stack(const void *regs, u64 *to, u32 most)
{
	u32 n;

	(void)regs;
	for (n = 0; n < most && n < 3; n++)
		if (to)
			to[n] = 0xffffffff81000000ull + n;
	return n;
}

/* The test's process is in no kernel: it has no other image, and two frames. */
struct ilk_images;

static u64 ilk_d_image(struct ilk_images *images)
{
	(void)images;
	return (u64)getpid();
}

static u32 ilk_d_user_stack(u64 *to, u32 most, u64 edge)
{
	u32 n;

	(void)edge;
	for (n = 0; n < most && n < 2; n++)
		if (to)
			to[n] = 0x401000 + n;
	return n;
}

static bool ilk_d_signal(struct ilk_deeds *deeds, u64 number)
{
	(void)deeds;
	return !is_client && number - 1 < 64;
}

static bool ilk_d_may_write(const struct ilk_deeds *deeds)
{
	(void)deeds;
	return !is_client;
}

/* Of all runs, in ns. */
static u64 chilled;

static bool ilk_d_chill(u64 ns)
{
	if (ns > 500000000)
		return false;
	chilled += ns;
	return true;
}

static bool ilk_d_user_register(u32 place, u64 *to)
{
	*to = 0x1000 + place;
	return true;
}

/* Files: as the kernel has them, as far as paths go. */
#include <linux/magic.h>

struct shown_dentry {
	u64 pprev, parent;
	u32 hash, length;
	u64 name, inode, super, operations, data;
};
struct shown_mount {
	u64 above, place, root, super;
};

#define ILK_D_DENTRY_PARENT offsetof(struct shown_dentry, parent)
#define ILK_D_DENTRY_NAME offsetof(struct shown_dentry, name)
#define ILK_D_DENTRY_LENGTH offsetof(struct shown_dentry, length)
#define ILK_D_DENTRY_FROM ILK_D_DENTRY_PARENT
#define ILK_D_DENTRY_SIZE 24
#define ILK_D_DENTRY_SUPER offsetof(struct shown_dentry, super)
#define ILK_D_DENTRY_DATA offsetof(struct shown_dentry, data)
#define ILK_D_DENTRY_INODE offsetof(struct shown_dentry, inode)
#define ILK_D_DENTRY_OPERATIONS offsetof(struct shown_dentry, operations)
#define ILK_D_DENTRY_HASHED offsetof(struct shown_dentry, pprev)
#define ILK_D_OPERATIONS_NAME 0
#define ILK_D_SUPER_MAGIC 0
#define ILK_D_INODE_NUMBER 0
#define ILK_D_PATH_DENTRY 8
#define ILK_D_PATH_MOUNT 0
#define ILK_D_FIRST_ROOT 0
#define ILK_D_MOUNT_ROOT 0
#define ILK_D_MOUNT_SUPER 8
#define ILK_D_MOUNT_SIZE 16
#define ILK_D_MOUNT_AT offsetof(struct shown_mount, root)
#define ILK_D_MOUNT_ABOVE ILK_D_MOUNT_AT
enum {
	ILK_D_PIPES = PIPEFS_MAGIC, ILK_D_SOCKETS = SOCKFS_MAGIC, ILK_D_ANONYMOUS = ANON_INODE_FS_MAGIC,
	ILK_D_NAMESPACES = NSFS_MAGIC
};

static u64 directory[2][2]; /* the root, the task's own: dentry, mount */
static u64 first_root[2]; /* mount, dentry */
static u64 first_place;

static inline u64 ilk_d_first(void)
{
	first_place = (u64)first_root;
	return (u64)&first_place;
}

static inline void ilk_d_directory(bool own, u64 *dentry, u64 *mount)
{
	*dentry = directory[own][0];
	*mount = directory[own][1];
}

/* Memory number 1 is its own. */
static u64 arguments[2];

static inline bool ilk_d_arguments(u64 mm, u64 *start, u64 *end)
{
	*start = arguments[0];
	*end = arguments[1];
	return mm == 1;
}

/* A packet, and the description of its pages. */
struct shown_packet {
	u32 length, apart, end, unused;
	u64 data, head;
};
struct shown_fragment {
	u64 at, size;
};

#define ILK_D_PACKET_LENGTH offsetof(struct shown_packet, length)
#define ILK_D_PACKET_APART offsetof(struct shown_packet, apart)
#define ILK_D_PACKET_DATA offsetof(struct shown_packet, data)
#define ILK_D_PACKET_HEAD offsetof(struct shown_packet, head)
#define ILK_D_PACKET_END offsetof(struct shown_packet, end)
#define ILK_D_PACKET_COUNT 0
#define ILK_D_PACKET_FRAGMENTS 8
#define ILK_D_FRAGMENT_SIZE sizeof(struct shown_fragment)

static inline void ilk_d_fragment(const void *seen, u64 *from, u64 *size)
{
	*from = ((const struct shown_fragment *)seen)->at;
	*size = ((const struct shown_fragment *)seen)->size;
}

#include "ilk/d/helpers.c"

#include "ilk/d/check.h"
#include "ilk/d/layout.h"
#include "ilk/d/uprobe.h"

#define SHOWN __attribute__((visibility("default"), used))

SHOWN u32 checked(const u8 *code, u32 size, u32 frame, u32 clausetime, u32 groups, const u32 *entry, u32 *ways, u32 *where,
		  u32 deeds)
{
	struct ilk_d_code c = { code, size, frame, clausetime, groups, deeds, entry, ways, 0 };
	u32 verdict = ilk_d_check(&c);

	*where = c.where;
	return verdict;
}

SHOWN u32 layout_fits(const struct gd_layout *layout)
{
	return ilk_d_layout_fits(layout);
}

SHOWN u32 uprobe_fits(const struct ilk_d_uprobe *message, u32 size, u32 groups)
{
	return ilk_d_uprobe_fits(message, size, groups);
}

SHOWN u32 uprobe_lies_in(const struct ilk_d_uprobe *message, u64 file)
{
	return ilk_d_uprobe_lies_in(message, file);
}

static u64 here(u32 number)
{
	return (u64)ilk_d_helpers[number];
}

void leave(void);
void enter(const void *code, u64 *frame);
__asm__(".text\n"
	"leave: ret\n"
	"enter: push %rbx\n mov %rsi, %rbx\n call *%rdi\n pop %rbx\n ret\n");

/* `copy`: code with room behind it, which is to lie at `at`. */
SHOWN void linked(u8 *copy, u32 size, u64 at)
{
	ilk_d_link(copy, size, at, here, (u64)leave);
}

/* The same for an emulator: helper N is at `helpers` + 16 N, the exit at `out`. */
static u64 helpers_at;

static u64 there(u32 number)
{
	return helpers_at + 16 * number;
}

SHOWN void linked_to(u8 *copy, u32 size, u64 at, u64 helpers, u64 out)
{
	helpers_at = helpers;
	ilk_d_link(copy, size, at, there, out);
}

/* One program at a time. */
static struct ilk_clauses clauses;
static struct ilk_run run;

SHOWN void loaded(const struct ilk_d_program *message, u8 *memory)
{
	clauses = (struct ilk_clauses){ .memory = memory, .layout = message->layout, .sizes = *message };
	ilk_d_place_tables(&clauses, message + 1);
	host_test.thread_time = 1;
}

SHOWN void stood(u32 own, u64 dentry, u64 mount)
{
	directory[own][0] = dentry;
	directory[own][1] = mount;
}

SHOWN void first_stood(u64 dentry, u64 mount)
{
	first_root[0] = mount;
	first_root[1] = dentry;
}

SHOWN void argued(u64 start, u64 end)
{
	arguments[0] = start;
	arguments[1] = end;
}

/* As the driver does it when it is asked to: how many records moved. */
SHOWN u64 settled(u32 cpu)
{
	u64 id, at, count = 0;

	for (id = 1; id <= clauses.layout.speculations; id++)
		for (at = 0; ilk_d_settle_one(&clauses, cpu, id, &at); count++)
			;
	return count;
}

/* The instructions of one helper: the processor's trap flag brings a signal after each. */
static volatile u64 steps;

static void on_step(int number)
{
	(void)number;
	steps++;
}

/* `frame`: what lies in it, and then what the helper leaves there. */
SHOWN u64 counted(u32 helper, u8 *frame, u32 size, const u64 *given, u64 *result)
{
	u64 (*call)(void *, u64, u64, u64, u64, u64) = (u64(*)(void *, u64, u64, u64, u64, u64))here(helper);
	struct sigaction action = { .sa_handler = on_step }, before;
	u64 a = given[0], b = given[1], c = given[2], d = given[3], e = given[4];

	memcpy(run.frame, frame, size);
	sigaction(SIGTRAP, &action, &before);
	steps = 0;
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" : : : "cc", "memory");
	*result = call(run.frame, a, b, c, d, e);
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" : : : "cc", "memory");
	sigaction(SIGTRAP, &before, 0);
	memcpy(frame, run.frame, size);
	return steps;
}

/* A run is ready for helpers, as at a hit. */
SHOWN void prepared(const struct gd_event *event)
{
	is_client = false;
	run.event = *event;
	ilk_d_begin(&run, &clauses, event->arg, true, 0);
	ilk_d_prepare(&run);
}

SHOWN u32 fault_of_run(void)
{
	return run.context.fault;
}

SHOWN void fired(const u8 *code, u32 group, u32 always, const struct gd_event *event)
{
	is_client = true;
	run.event = *event;
	memset(run.frame, 0xa5, sizeof(run.frame)); /* what another run left there */
	ilk_d_begin(&run, &clauses, event->arg, always, 0);
	ilk_d_prepare(&run);
	enter(code + clauses.entry[group], run.frame);
}
