/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DTrace's type of a processor, for programs about processes and for those about kernels. */

typedef id_t psetid_t;
typedef id_t chipid_t;

typedef struct cpuinfo {
	processorid_t cpu_id;
	psetid_t cpu_pset;
	chipid_t cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;
