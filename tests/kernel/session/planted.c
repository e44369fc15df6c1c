/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * /dev/planted: a driver with faults. A client that has opened it for writing may ask for one of four numbers (ioctl 101),
 * and note one (ioctl 102). The driver does not check the index, nor whether there are numbers at all.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

struct planted {
	long numbers[4];
	long secret[4];
};

static struct planted shown = { { 10, 20, 30, 40 }, { 4242, 5252, 6262, 7272 } };
static long noted;

long planted_ioctl(struct file *f, unsigned int cmd, unsigned long arg);
void planted_note(struct file *f, unsigned long arg);

noinline void planted_note(struct file *f, unsigned long arg)
{
	noted += f ? arg : 0;
	barrier();
}

noinline long planted_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	struct planted *own = f->private_data;

	if (cmd == 102) {
		planted_note(f, arg);
		return noted;
	}
	return READ_ONCE(own->numbers[arg & 7]);
}

static int planted_open(struct inode *inode, struct file *f)
{
	f->private_data = f->f_mode & FMODE_WRITE ? &shown : NULL;
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = planted_open,
	.unlocked_ioctl = planted_ioctl,
};

static struct miscdevice device = { .minor = MISC_DYNAMIC_MINOR, .name = "planted", .fops = &operations };

module_misc_device(device);
MODULE_LICENSE("GPL");
