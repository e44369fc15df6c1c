/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernel headers for the unit with the state of aspects. */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>
#include <asm/tsc.h>

#include "gilk_woven.h"
