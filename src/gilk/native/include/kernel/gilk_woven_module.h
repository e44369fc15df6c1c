/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The headers of the unit that has the state of aspects in the kernel. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>
#include <asm/tsc.h>

#include "gilk_woven.h"
