// SPDX-License-Identifier: GPL-2.0
/*
 * Looks after programs once a second: puts in force what they have on CPUs that have come online, and aborts the programs
 * of clients that send no messages any more: a program that takes so much of the machine that its own client does not
 * run must not go on for ever.
 *
 * It counts checks, a second apart, instead of time, which leaps after a virtual machine stood still. Need: nothing.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

#include "d.h"

static unsigned int deadman = 30;
module_param(deadman, uint, 0600);
MODULE_PARM_DESC(deadman, "seconds for which a client of a D program may say nothing; 0: for ever");

static void look(struct work_struct *work);
static DECLARE_DELAYED_WORK(looking, look);

static bool is_silent(struct ilk_client *client)
{
	struct ilk_program *p = client->program;
	struct gd_control *control = (struct gd_control *)p->clauses.memory;

	if (!deadman || p->clauses.sizes.flags & ILK_D_UNWATCHED || READ_ONCE(control->state) == GD_INACTIVE)
		return false;
	return ++client->silent >= deadman;
}

/* Abort a client's program. Its probes stay, and do nothing, until the file is closed. */
static void abort_program(struct ilk_client *client)
{
	struct ilk_program *p = client->program;

	WRITE_ONCE(((struct gd_control *)p->clauses.memory)->state, GD_INACTIVE);
	p->aborted = true;
	ilk_d_images_let_go(p->clauses.images);
	pr_warn("ilk: a D program was aborted, as its client has said nothing for %u s\n", deadman);
}

static void look(struct work_struct *work)
{
	struct ilk_client *client;
	bool any = false;

	mutex_lock(&ilk_mutex);
	list_for_each_entry(client, &ilk_clients, list) {
		if (!client->program)
			continue;
		any = true;
		ilk_d_clocks_renew(client->program);
		ilk_d_perf_renew(client->program);
		if (is_silent(client))
			abort_program(client);
	}
	if (any)
		ilk_d_watch();
	mutex_unlock(&ilk_mutex);
}

/* Start the checks, which go on as long as there are programs. */
void ilk_d_watch(void)
{
	queue_delayed_work(system_highpri_wq, &looking, HZ);
}

/* Stop the checks. No client is left. */
void ilk_d_unwatch(void)
{
	cancel_delayed_work_sync(&looking);
}
