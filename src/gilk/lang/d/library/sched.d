/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* DTrace's type of the processor on which a clause runs: see docs/d/variables.md. There are no sets of processors. */
#pragma D depends_on library processors.d
#pragma D depends_on library processor_types.d

translator cpuinfo_t < int C > {
	cpu_id = C;
	cpu_pset = 0;
	cpu_chip = processor_chip[C];
	cpu_lgrp = processor_node[C];
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> (cpu);
#pragma D attributes Stable/Stable/Common curcpu

inline psetid_t pset = curcpu->cpu_pset;
#pragma D attributes Stable/Stable/Common pset

inline chipid_t chip = curcpu->cpu_chip;
#pragma D attributes Stable/Stable/Common chip

inline lgrp_id_t lgrp = curcpu->cpu_lgrp;
#pragma D attributes Stable/Stable/Common lgrp
