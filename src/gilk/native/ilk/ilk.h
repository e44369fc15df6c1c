/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the parts of the driver share.
 *
 * Locks, outermost first: ilk_mutex (clients, units, arenas), jump_label_mutex or kprobe_mutex, text_mutex. Nobody
 * waits for a grace period with text_mutex held, since everybody else who changes code would wait, too.
 */
#ifndef ILK_H
#define ILK_H

#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "../abi/gilk_abi.h"
#include "../abi/ilk_abi.h"
#include "compat.h"
#include "omit.h"
#include "rings.h"

#define ILK_MESSAGE_MAX (16u << 20)
#define ILK_ARENA_MAX (256ull << 20)
#define ILK_COUNTERS_MAX (1u << 20)
#define ILK_UNITS_MAX (1u << 20)
#define ILK_RINGS_MAX (1ull << 30) /* bytes, all rings of a client */
#define ILK_BATCH 256u /* what the kernel pokes at once */
#define ILK_RINGS (ILK_SETS * ILK_CLASSES)

struct ilk_client {
	struct list_head list;
	struct xarray units; /* by id */
	u32 nr_units;
	struct list_head arenas;
	u64 arena_bytes;
	struct list_head blocks; /* of counters, ascending */
	u32 nr_counters;
	struct ilk_buffers *buffers; /* NULL: the client has asked for none */
	struct mutex read_mutex; /* of the buffers' read side */
	struct wait_queue_head readers; /* tasks that poll */
	struct ilk_program *program; /* of D; NULL: none */
	struct ilk_fentries *fentries; /* its FENTRY in force; NULL: none */
	struct ilk_shared *shared; /* with processes; NULL: nothing */
	struct module *held[ILK_HELD_MAX];
	u32 nr_held;
	u32 silent; /* how many checks have found no message since the last one (d/deadman.c) */
	bool orphan; /* the file is closed, but some units are busy */
};

enum ilk_state {
	ILK_NEW, /* text untouched */
	ILK_TRAPPED, /* int3 on the first byte */
	ILK_ACTIVE,
	ILK_LEFT, /* its module is gone */
};

/* A unit that was accepted. */
struct ilk_site {
	struct rb_node node; /* by address; not for pads within a host */
	struct hlist_node hash; /* by address, for traps; RCU */
	struct list_head guests; /* pads in our freed bytes */
	struct list_head guest; /* in host->guests */
	struct ilk_client *client;
	struct ilk_site *pad; /* SHORT: what it bounces off */
	struct ftrace_func_entry *entry; /* FENTRY: removed from ftrace's table, for us to free */
	struct ilk_site *host; /* PAD: whose bytes it lies in, or NULL */
	unsigned long address;
	unsigned long patch;
	unsigned long copy;
	u32 id;
	u32 users; /* PAD: of SHORTs */
	u32 leaving; /* PAD: how many of these the current change removes */
	u32 status; /* in the current change */
	u64 detail;
	bool chosen; /* by the current change */
	u8 kind;
	u8 length;
	u8 flags;
	u8 state;
	u8 old[ILK_WINDOW];
	u8 new[ILK_WINDOW];
};

extern struct mutex ilk_mutex;
extern struct list_head ilk_clients;
extern atomic64_t ilk_traps;
extern u64 ilk_batches;

/* symbols.c */
int ilk_symbols_init(void);
bool ilk_never_returns(unsigned long function);

static inline bool ilk_in_core(unsigned long address)
{
	return address >= (unsigned long)ilk_kernel._stext &&
	       address < (unsigned long)ilk_kernel._etext;
}

/* arena.c */
int ilk_arena_create(struct ilk_client *client, u64 bytes, u64 *size, u64 *address);
int ilk_arena_fill(struct ilk_client *client, u64 address, const void *content, u64 bytes);
bool ilk_arena_holds(struct ilk_client *client, unsigned long address);
void ilk_arenas_free(struct ilk_client *client);
void *ilk_code_alloc(size_t bytes);
void ilk_code_free(void *code);

/* share.c: memory that is shared with processes */
int ilk_share(struct ilk_client *client, struct ilk_share *message);
void ilk_share_off(struct ilk_client *client);
void ilk_share_free(struct ilk_client *client);

/* validate.c: checks of a unit that do not look at the kernel */
u32 ilk_validate(struct ilk_client *client, const struct ilk_unit *unit);
u32 ilk_front(u8 kind);

/* place.c: where it may lie beside other units */
u32 ilk_place(struct ilk_site *site, u64 *detail);
u32 ilk_place_pad(struct ilk_site *site, u32 id);

/* verify.c: checks of the place against the kernel */
u32 ilk_verify(const struct ilk_site *site, u64 *detail);

/* reserved.c: text that the kernel itself rewrites */
int ilk_reserved_init(void);
void ilk_reserved_exit(void);
u32 ilk_reserved_core(unsigned long first, unsigned long last);

/* branch_targets.c: the targets of the function's own jumps, and the padding that it runs into */
int ilk_branch_targets_init(void);
void ilk_branch_targets_exit(void);
void ilk_branch_targets_forget(void);
u32 ilk_branch_target(unsigned long first, unsigned long last, u64 *detail);
u32 ilk_rest(unsigned long first, unsigned long last, unsigned long *start, u64 *detail);
bool ilk_instruction_at(unsigned long at, unsigned long end, struct insn *insn);

/* xrefs.c: the targets of all other jumps */
int ilk_xrefs_init(void);
void ilk_xrefs_exit(void);
void ilk_xrefs_forget(void);
u32 ilk_xref(unsigned long first, unsigned long last, u64 *detail);

/* sites.c: the set of all units */
void ilk_site_insert(struct ilk_site *site);
void ilk_site_remove(struct ilk_site *site);
bool ilk_site_add(struct ilk_site *site);
void ilk_sites_forget(struct ilk_site **sites, u32 count);
void ilk_site_leave(struct ilk_site *site);
struct ilk_site *ilk_site_trapped(unsigned long address);
struct ilk_site *ilk_site_next(unsigned long address);
struct ilk_site *ilk_site_after(const struct ilk_site *site);

/* poke.c: batches of writes to text */
typedef bool (*ilk_wanted_fn)(const struct ilk_site *site);
typedef u32 (*ilk_poke_fn)(struct ilk_site *site);
void ilk_poke_all(struct ilk_site **sites, u32 count, ilk_wanted_fn wanted, ilk_poke_fn poke);
bool ilk_text_is(unsigned long address, const void *bytes, size_t length);
void ilk_text_lock(void);
void ilk_text_unlock(void);
bool ilk_text_hold(void);
void ilk_text_let_go(void);
unsigned long ilk_kprobed(unsigned long first, unsigned long last);
u32 ilk_poke_trap(struct ilk_site *site);
u32 ilk_poke_front(struct ilk_site *site);
u32 ilk_poke_rest(struct ilk_site *site);
u32 ilk_poke_pad(struct ilk_site *site);
u32 ilk_poke_back(struct ilk_site *site);
void ilk_grace(u32 why);
void ilk_omit_init(void);

/* apply.c, undo.c */
int ilk_apply(struct ilk_client *client, struct ilk_unit *units, u32 count);
u32 ilk_undo(struct ilk_client *client, struct ilk_result *results, u32 count);
bool ilk_undo_all(struct ilk_client *client);
void ilk_undo_module(unsigned long start, unsigned long end);

/* ftrace.c */
void ilk_fentry_attach(struct ilk_site **sites, u32 count);
void ilk_fentry_detach(struct ilk_site **sites, u32 count);

/* direct.c: ftrace's table of direct calls */
bool ilk_direct_taken(const struct ilk_site *site);
int ilk_direct_add(struct ilk_site **sites, u32 count);
void ilk_direct_remove(struct ilk_site **sites, u32 count);

/* trap.c */
int ilk_trap_init(void);
void ilk_trap_exit(void);
/* Whether the address lies in code that runs between an int3 and our handler. */
bool ilk_on_the_way(unsigned long address);

/* modules.c */
int ilk_modules_init(void);
void ilk_modules_exit(void);
int ilk_hold(struct ilk_client *client, u64 address);
void ilk_let_go(struct ilk_client *client);

/* counters.c */
int ilk_counters_init(void);
void ilk_counters_exit(void);
u32 ilk_counters_free_near(void);
int ilk_counters_create(struct ilk_client *client, u32 count, struct ilk_block *blocks, u32 room,
			u32 *made);
int ilk_counters_read(struct ilk_client *client, u32 first, u32 count, u32 cpu, u64 *values);
void ilk_counters_free(struct ilk_client *client);

/* buffers.c: memory for records */
/* The processes that the client wants records of. The bitmap is freed with the client's buffers. */
struct ilk_wanted {
	unsigned long *only; /* ILK_TGIDS bits; NULL: no process has been named yet */
	u32 members;
};

/* Memory that the client may map. */
struct ilk_region {
	void *memory;
	u64 bytes;
	u32 skipped; /* pages at the start that are not used */
};

/* How far read() is in a ring. */
struct ilk_reading {
	u64 position; /* bytes since the start of chunk 1 */
	u64 overwritten; /* records that were overwritten before they were read */
	u32 place; /* where the next chunk is looked for first */
};

struct ilk_buffers {
	u32 set;
	u32 flags;
	u32 watermark;
	u32 order[ILK_CLASSES];
	struct ilk_wanted wanted;
	struct ilk_region tails;
	struct ilk_region heads;
	struct ilk_region records[ILK_CLASSES];
	u64 numbers[ILK_CLASSES]; /* in heads */
	u32 next; /* where the next read begins: cpu * ILK_CLASSES + class */
	struct ilk_reading *reading; /* [cpu * ILK_CLASSES + class] */
	bool waiting; /* a task polls, and has not been woken since */
	struct irq_work wake;
	struct wait_queue_head *readers;
};

DECLARE_PER_CPU(struct ilk_ring, ilk_rings[ILK_RINGS]);

static inline struct ilk_ring *ilk_ring_of(const struct ilk_buffers *buffers, u32 cpu, u32 class_)
{
	return per_cpu_ptr(&ilk_rings[class_ + ILK_CLASSES * buffers->set], cpu);
}

int ilk_buffers_create(struct ilk_client *client, struct ilk_records *message);
void ilk_buffers_free(struct ilk_client *client);
void ilk_buffers_lost(struct ilk_client *client, u64 *lost);
u64 ilk_buffers_bytes(struct ilk_client *client);

/* rings.c: writing records. reader.c, map.c: reading them. */
u32 ilk_class_size(u32 class_);
u64 ilk_reserve_slow(u32 which);
void ilk_lose_record(u32 which);
ssize_t ilk_buffers_read(struct ilk_client *client, char __user *to, size_t room);
int ilk_buffers_map(struct ilk_client *client, struct vm_area_struct *vma);
void ilk_buffers_areas(const struct ilk_buffers *buffers, struct ilk_records *message);
void ilk_buffers_wake(struct irq_work *work);
__poll_t ilk_buffers_poll(struct ilk_client *client, struct file *file, poll_table *table);

/* filter.c */
DECLARE_PER_CPU(u64, ilk_filters[ILK_SETS]);

int ilk_filter_init(void);
void ilk_filter_exit(void);
int ilk_filter_set(struct ilk_client *client, struct ilk_filter *message);
void ilk_filter_free(struct ilk_wanted *wanted, u32 set);
bool ilk_filter_wants(u32 set);

/* call.c, thunks.S: entry points for generated code */
void ilk_reserve(void);
void ilk_registers(void);
void ilk_dispatch(struct gilk_regs *regs, const struct gilk_call *call);
void ilk_log_pair(u32 set, u32 iid, u64 value, u64 extra);
void ilk_log_string(u32 set, u32 iid, const char *text);
void ilk_log_registers(u32 set, u32 iid, const struct gilk_regs *regs);
void ilk_stamp(u32 set, u32 iid, u64 sp);
u64 ilk_missed_sum(void);

/* onward.c */
extern struct gilk_onward ilk_onward;

void ilk_onward_begin(u32 set);
void ilk_onward_jumps(const struct gilk_regs *regs, u32 number);
void ilk_onward_begins(const struct gilk_regs *regs, u32 number);
void ilk_onward_returns(const struct gilk_regs *regs, u32 number);

/* entries.c */
u32 ilk_call_symbols(struct ilk_symbol *symbols, u32 room);

/* main.c */
void ilk_client_free(struct ilk_client *client);

/* control.c */
long ilk_control(struct file *file, unsigned int request, unsigned long argument);

/* selftest.c */
int ilk_selftest(void);

#endif
