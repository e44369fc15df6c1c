/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ownership: the code that is looked at is only read, and stays mapped meanwhile. Need: nothing. */
#ifndef GILK_WORK_SIZE_H
#define GILK_WORK_SIZE_H

#include "runtime.h"

/* The size of an instruction that does an instrument's work, and leaves the stack pointer alone; 0: it may be another. */
unsigned gilk_size_of_work(const gilk_u8 *at);

#endif
