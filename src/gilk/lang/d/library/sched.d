/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DTrace's type of the processor on which a clause runs: see docs/d/variables.md. There are no sets of processors. */
#pragma D depends_on library processors.d
#pragma D depends_on library processor_types.d

/* Each processor has a struct of its own, so that a pointer to it can be kept. */
cpuinfo_t processor_info[processor_count];

inline cpuinfo_t *processor_described[int C] = (
	processor_info[C].cpu_id = C,
	processor_info[C].cpu_pset = 0,
	processor_info[C].cpu_chip = processor_chip[C],
	processor_info[C].cpu_lgrp = processor_node[C],
	&processor_info[C]);

inline cpuinfo_t *curcpu = processor_described[cpu];
#pragma D attributes Stable/Stable/Common curcpu

inline psetid_t pset = 0;
#pragma D attributes Stable/Stable/Common pset

inline chipid_t chip = processor_chip[cpu];
#pragma D attributes Stable/Stable/Common chip

inline lgrp_id_t lgrp = processor_node[cpu];
#pragma D attributes Stable/Stable/Common lgrp
