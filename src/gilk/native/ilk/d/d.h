/* SPDX-License-Identifier: GPL-2.0 */
/*
 * D programs in the driver: declarations that its parts share.
 *
 * A group runs with interrupts off, in the frame of its CPU and level: normal, or NMI. A frame belongs to one run at a
 * time. Code with interrupts off is also an RCU reader: attachments of sites, and programs, are freed after a grace
 * period.
 *
 * Need: ilk_mutex, for all functions except those that run at a hit.
 */
#ifndef ILK_D_H
#define ILK_D_H

#include <linux/hrtimer.h>
#include <linux/sched.h>

#include "../ilk.h"
#include "helpers.h"
#include "run.h"

#define ILK_D_SITES_MAX (1u << 18)
#define ILK_D_STACK_LEAST 2048u /* bytes */

struct ilk_program {
	struct ilk_clauses clauses;
	void *tables; /* the tables that follow the message's fixed part */
	u8 *code; /* executable */
	u64 __percpu *missed; /* [2]: nested, shallow */
	bool aborted; /* the client has sent nothing for too long */
	struct list_head clocks;
	struct list_head points;
	struct list_head counted;
	u32 nr_clocks; /* on CPUs that were online when they were attached; the same for those that are counted */
	u32 nr_counted;
	struct ilk_deeds deeds;
	struct list_head uprobes;
	u32 nr_uprobes; /* includes those that are being registered */
};

/* A program that is attached to a site. */
struct ilk_attached {
	struct ilk_attached __rcu *next;
	struct ilk_attached *gone; /* the next one that is to be freed */
	struct ilk_program *program;
	u32 kind;
	u32 group;
	u32 probe;
	u64 start;
	bool deep;
	u32 role;
	struct ilk_d_choice call[]; /* by number of the system call; group ~0: none */
};

/*
 * A site, found by its number. `kind` and `address` come from its client, and do not change while it is in force, when
 * other clients can find it.
 */
struct ilk_d_site {
	struct ilk_client *client; /* null: free */
	u64 address;
	u32 kind;
	struct hlist_node by_address; /* linked while it is in force */
	struct ilk_attached __rcu *first;
};

extern struct ilk_d_site *ilk_d_sites; /* [ILK_D_SITES_MAX]; null: no site was made yet */
extern u32 ilk_d_sites_end; /* from this number on, all are free */

static inline bool ilk_d_in_force(const struct ilk_d_site *site)
{
	return !hlist_unhashed(&site->by_address);
}

/* A firing: the program and group that run, and the registers at the place; `regs` may be null. */
struct ilk_firing {
	struct ilk_program *program;
	u32 group;
	u32 probe;
	bool always;
	bool waits; /* the group may be run again */
	s32 error;
	u32 edge; /* not 0: at the entry or return of a function in user space, where its frame is the return address only */
	const struct gilk_regs *regs;
	u64 arg[10];
};

/*
 * The identity of a task: its start time in units of 1024 ns, and its number, which no other task had at that time.
 * Identities of interrupts have bit 63.
 */
static inline u64 ilk_d_identity(const struct task_struct *task)
{
	return (task->start_time << 13 >> 23) << 22 | (u64)task->pid;
}

/* Set the arguments from 0, 2 or 6 on to 0, without a loop, which compilers turn into an expensive call. */
static inline void ilk_d_no_more(struct ilk_firing *firing, u32 from)
{
	switch (from) {
	case 0:
		firing->arg[0] = firing->arg[1] = 0;
		fallthrough;
	case 2:
		firing->arg[2] = firing->arg[3] = firing->arg[4] = firing->arg[5] = 0;
		fallthrough;
	default:
		firing->arg[6] = firing->arg[7] = firing->arg[8] = firing->arg[9] = 0;
	}
}

/* A call that ends elsewhere: the group and probe that fire, its jump, and the beginning of its function. */
struct ilk_ended {
	u32 group;
	u32 probe;
	u64 at;
	u64 start;
};

#define ILK_D_ENDED_MAX 8 /* at one return */

/* check.c */
int ilk_d_prove(struct ilk_d_program *message, struct ilk_program *program, const u8 *code);

/* program.c */
int ilk_d_program_create(struct ilk_client *client, struct ilk_d_program *message, u32 size);
void ilk_d_program_free(struct ilk_client *client);

/* memory.c: the parts of it that the client reads and changes */
int ilk_d_read(struct ilk_client *client, struct ilk_d_read *message, u32 size);
int ilk_d_lines(struct ilk_client *client, struct ilk_d_lines *message, u32 size);
int ilk_d_put(struct ilk_client *client, struct ilk_d_put *message, u32 size);
int ilk_d_status(struct ilk_client *client, struct ilk_d_status *message);
int ilk_d_reap(struct ilk_client *client, struct ilk_d_reap *message);
int ilk_d_settle(struct ilk_client *client, struct ilk_d_settle *message);

/* site_table.c */
int ilk_d_sites_create(struct ilk_client *client, struct ilk_d_sites *message);
void ilk_d_sites_free(struct ilk_client *client);
void ilk_d_sites_gone(unsigned long start, unsigned long end);
void ilk_d_sites_exit(void);
int ilk_d_find(struct ilk_client *client, struct ilk_d_find *message);
int ilk_d_force(struct ilk_client *client, struct ilk_d_force *message, u32 size);
bool ilk_d_unforce(const struct ilk_client *client);

/* sites.c */
int ilk_d_attach(struct ilk_client *client, struct ilk_d_attach *message, u32 size);
void ilk_d_detach_all(struct ilk_client *client);
void ilk_d_hit(struct gilk_regs *regs, const struct gilk_call *call);

/*
 * tails.c: what a place of that role, other than FIRES, does besides running its group. `call`: the group, probe and
 * jump of the place itself. Returns how many calls have ended, which `to` gets.
 */
u32 ilk_d_follow(const struct ilk_program *program, u32 role, u64 sp, const struct ilk_ended *call,
		 struct ilk_ended *to);

/* shared.c */
int ilk_d_originals(struct ilk_client *client, struct ilk_d_originals *message, u32 size);
u32 ilk_d_shared(const struct ilk_client *client);

/* fire.c */
int ilk_d_runs_create(void);
void ilk_d_exit(void);
u64 ilk_d_run(const struct ilk_firing *firing);
u64 ilk_d_thread(void);
int ilk_d_fire(struct ilk_client *client, struct ilk_d_fire *message);

/* deeds.c */
void ilk_d_deeds_init(void);
void ilk_d_deeds_exit(void);

/* clocks.c */
int ilk_d_clock(struct ilk_client *client, struct ilk_d_clock *message);
void ilk_d_clocks_renew(struct ilk_program *program);
void ilk_d_clocks_stop(struct ilk_program *program);

/* points.c */
int ilk_d_point(struct ilk_client *client, struct ilk_d_point *message);
void ilk_d_points_stop(struct ilk_program *program);
void ilk_d_point_hit(struct gilk_regs *regs, const u64 *stack);

/* perf.c */
int ilk_d_perf(struct ilk_client *client, struct ilk_d_perf *message);
void ilk_d_perf_renew(struct ilk_program *program);
void ilk_d_perf_stop(struct ilk_program *program);

/* uprobes.c */
int ilk_d_uprobe(struct ilk_client *client, struct ilk_d_uprobe *message, u32 size);
void ilk_d_uprobes_stop(struct ilk_client *client);

/* process.c */
struct ilk_images *ilk_d_images_create(void);
void ilk_d_images_free(struct ilk_images *images);
void ilk_d_images_let_go(struct ilk_images *images);
int ilk_d_mapped(struct ilk_client *client, struct ilk_d_mapped *message, u32 size);

/* deadman.c */
void ilk_d_watch(void);
void ilk_d_unwatch(void);

/* enter.S */
void ilk_fire(void);
void ilk_point(void);
void ilk_d_enter(const void *code, u64 *frame);
void ilk_d_leave(void);

#endif
