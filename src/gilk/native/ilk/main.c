// SPDX-License-Identifier: GPL-2.0
/* /dev/ilk: who may open it, what an open file owns, and how that is released when the file is closed. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "ilk.h"
#include "d/d.h"

DEFINE_MUTEX(ilk_mutex);
LIST_HEAD(ilk_clients);
u64 ilk_batches;

static void retry(struct work_struct *work);
static DECLARE_DELAYED_WORK(orphans, retry);

/* ilk_mutex is held, and no unit of the client is left. */
void ilk_client_free(struct ilk_client *client)
{
	ilk_d_sites_free(client);
	ilk_buffers_free(client);
	ilk_counters_free(client);
	ilk_arenas_free(client);
	ilk_share_free(client);
	ilk_let_go(client);
	xa_destroy(&client->units);
	list_del(&client->list);
	kfree(client);
}

/*
 * Undo the units of closed clients that could not be undone before: a kprobe was on them, or other programs used their
 * probes. Each such client keeps the module loaded.
 */
static void retry(struct work_struct *work)
{
	struct ilk_client *client, *next;
	u32 freed = 0;
	bool left = false;

	mutex_lock(&ilk_mutex);
	list_for_each_entry_safe(client, next, &ilk_clients, list) {
		if (!client->orphan)
			continue;
		if (ilk_d_unforce(client) && ilk_undo_all(client)) {
			ilk_client_free(client);
			freed++;
		} else {
			left = true;
		}
	}
	if (left)
		schedule_delayed_work(&orphans, HZ);
	mutex_unlock(&ilk_mutex);
	while (freed--)
		module_put(THIS_MODULE);
}

/* A driver that writes code must refuse wherever the kernel refuses /dev/mem. */
static int allowed(void)
{
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	return security_locked_down(LOCKDOWN_DEV_MEM);
}

static int ilk_open(struct inode *inode, struct file *file)
{
	struct ilk_client *client;
	int error = allowed();

	if (error)
		return error;
	client = kzalloc(sizeof(*client), GFP_KERNEL);
	if (!client)
		return -ENOMEM;
	xa_init(&client->units);
	INIT_LIST_HEAD(&client->arenas);
	INIT_LIST_HEAD(&client->blocks);
	mutex_init(&client->read_mutex);
	init_waitqueue_head(&client->readers);
	file->private_data = client;
	mutex_lock(&ilk_mutex);
	list_add(&client->list, &ilk_clients);
	mutex_unlock(&ilk_mutex);
	return nonseekable_open(inode, file);
}

static int ilk_release(struct inode *inode, struct file *file)
{
	struct ilk_client *client = file->private_data;

	ilk_d_uprobes_stop(client);
	mutex_lock(&ilk_mutex);
	ilk_share_off(client);
	ilk_d_detach_all(client);
	ilk_d_program_free(client);
	if (ilk_d_unforce(client) && ilk_undo_all(client)) {
		ilk_client_free(client);
	} else {
		client->orphan = true;
		__module_get(THIS_MODULE);
		schedule_delayed_work(&orphans, HZ);
	}
	mutex_unlock(&ilk_mutex);
	return 0;
}

static ssize_t ilk_read(struct file *file, char __user *to, size_t room, loff_t *at)
{
	struct ilk_client *client = file->private_data;
	ssize_t done;

	if (mutex_lock_killable(&client->read_mutex))
		return -EINTR;
	done = ilk_buffers_read(client, to, room);
	mutex_unlock(&client->read_mutex);
	return done;
}

static int ilk_mmap(struct file *file, struct vm_area_struct *vma)
{
	return ilk_buffers_map(file->private_data, vma);
}

static __poll_t ilk_poll(struct file *file, poll_table *table)
{
	return ilk_buffers_poll(file->private_data, file, table);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = ilk_open,
	.release = ilk_release,
	.read = ilk_read,
	.mmap = ilk_mmap,
	.poll = ilk_poll,
	.unlocked_ioctl = ilk_control,
	.llseek = no_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ilk",
	.fops = &operations,
	.mode = 0600,
};

static int __init start(void)
{
	int error;

	ilk_omit_init();
	error = ilk_symbols_init();

	if (error)
		return error;
	error = ilk_reserved_init();
	if (error)
		return error;
	error = ilk_branch_targets_init();
	if (error)
		goto no_table;
	error = ilk_xrefs_init();
	if (error)
		goto no_branch_targets;
	error = ilk_filter_init();
	if (error)
		goto no_xrefs;
	error = ilk_trap_init();
	if (error)
		goto no_filter;
	error = ilk_selftest();
	if (error)
		goto no_traps;
	error = ilk_modules_init();
	if (error)
		goto no_traps;
	ilk_counters_init();
	ilk_d_deeds_init();
	error = misc_register(&device);
	if (!error)
		return 0;
	ilk_counters_exit();
	ilk_modules_exit();
no_traps:
	ilk_trap_exit();
no_filter:
	ilk_filter_exit();
no_xrefs:
	ilk_xrefs_exit();
no_branch_targets:
	ilk_branch_targets_exit();
no_table:
	ilk_reserved_exit();
	return error;
}

static void __exit stop(void)
{
	misc_deregister(&device);
	cancel_delayed_work_sync(&orphans);
	ilk_d_unwatch();
	ilk_d_deeds_exit();
	ilk_modules_exit();
	ilk_trap_exit();
	ilk_counters_exit();
	ilk_filter_exit();
	ilk_xrefs_exit();
	ilk_branch_targets_exit();
	ilk_reserved_exit();
	ilk_d_sites_exit();
	ilk_d_exit();
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("gilk: instruments anywhere in a running kernel");
MODULE_VERSION("1");
