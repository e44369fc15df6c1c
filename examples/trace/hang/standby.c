/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A driver that puts a machine to sleep, and whose firmware does not always
 * return. A letter written to /dev/standby chooses the firmware:
 *
 *	a	it returns
 *	b	it never returns, with the interrupts of this processor off
 *	c	it never returns, and stops all other processors too
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#define DEVICES 4

static __always_inline void spin(void)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
}

static noinline void standby_take_along(void *unused)
{
	spin();
}

static noinline void standby_stop_device(int number)
{
	msleep(10 + number);
}

static noinline void standby_start_device(int number)
{
	usleep_range(100 + number, 200 + number);
}

static noinline void standby_stop_devices(void)
{
	for (int i = 0; i < DEVICES; i++)
		standby_stop_device(i);
}

static noinline void standby_start_devices(void)
{
	for (int i = DEVICES; i-- > 0;)
		standby_start_device(i);
}

/* Stands for firmware, like the former apm_bios_call_simple(): its code is not the kernel's. */
static noinline void standby_call_firmware(char version)
{
	if (version == 'c')
		smp_call_function(standby_take_along, NULL, 0);
	if (version != 'a')
		spin();
	udelay(50);
}

static noinline void standby_enter(char version)
{
	standby_stop_devices();
	msleep(500);
	standby_call_firmware(version);
	standby_start_devices();
}

static ssize_t standby_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char version;

	if (get_user(version, from))
		return -EFAULT;
	standby_enter(version);
	return size;
}

static const struct file_operations standby_operations = {
	.owner = THIS_MODULE,
	.write = standby_write,
};

static struct miscdevice standby_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "standby",
	.fops = &standby_operations,
};

module_misc_device(standby_device);
MODULE_DESCRIPTION("a driver whose firmware does not always come back");
MODULE_LICENSE("GPL");
