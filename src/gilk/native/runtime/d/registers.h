/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The registers that D knows by number, and where they are. Need: the types of gilk_d.h. */
#ifndef GILK_D_REGISTERS_H
#define GILK_D_REGISTERS_H

#include "base.h"

/*
 * Registers that are not in struct gilk_regs: the selectors of segments, the bases of FS and GS, as DTrace has them, and
 * facts about the thread's last trap. In a process the base of GS is gilk's own.
 * The first ones are in the order of enum host_segment.
 */
enum { GD_CS = 32, GD_SS, GD_DS, GD_ES, GD_FS, GD_GS, GD_ERR, GD_TRAPNO };

/* The index in struct gilk_regs, or one of those above, of each register R_* of the D library, from R_R15 on. */
static const gd_u8 gd_register_places[] = {
	15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7, GD_ERR, 16, GD_CS, 17, 4, GD_SS, GD_DS, GD_ES, GD_FS, GD_GS,
	GD_TRAPNO,
};

#endif
