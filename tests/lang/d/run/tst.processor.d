/* curcpu points to a struct that stays: one for each processor, with what is true of it. */
#pragma D option quiet
cpuinfo_t *before;
BEGIN {
	before = curcpu;
	printf("%d", before->cpu_id == cpu);
}
BEGIN { printf("%d", before->cpu_id >= 0 && before->cpu_chip == chip && before->cpu_pset == pset); }
BEGIN { printf("%d%d", (uint64_t)curcpu != 0, ((uint64_t)curcpu - (uint64_t)before) % sizeof (cpuinfo_t) == 0); }
BEGIN { printf("%d\n", (*curcpu).cpu_lgrp == lgrp); exit(0); }
