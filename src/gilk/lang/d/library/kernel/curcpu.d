/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processor on which a clause runs: see docs/d/variables.md. There are no sets of processors. */
#pragma D depends_on library nodes.d
#pragma D depends_on library processor_types.d

/* Each processor has a struct of its own, so that a pointer to it can be kept; Linux has 8192 of them at the most. */
cpuinfo_t processor_info[8192];

inline cpuinfo_t *processor_described[int C] = (
	processor_info[C].cpu_id = C,
	processor_info[C].cpu_pset = 0,
	processor_info[C].cpu_chip = `cpu_info.phys_proc_id,
	processor_info[C].cpu_lgrp = own_node,
	&processor_info[C]);

inline cpuinfo_t *curcpu = processor_described[cpu];
#pragma D attributes Stable/Stable/Common curcpu

inline psetid_t pset = 0;
#pragma D attributes Stable/Stable/Common pset

inline chipid_t chip = `cpu_info.phys_proc_id;
#pragma D attributes Stable/Stable/Common chip

inline lgrp_id_t lgrp = own_node;
#pragma D attributes Stable/Stable/Common lgrp
