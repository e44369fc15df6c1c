/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lab_bpf fentry BTF_ID | kprobe NAME: a BPF program there that adds to a counter of the processor, by the system call
 * alone: no library, no compiler for BPF. It says "ready" once the program is in place, and how many hits there
 * were when its standard input ends.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS 64
#define INSN(opcode, dst, src, offset, value) { (opcode), (dst), (src), (offset), (value) }

static char text[65536];

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int fail(const char *what)
{
	perror(what);
	fputs(text, stderr);
	exit(1);
}

static int new_map(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_PERCPU_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1 };

	return bpf(BPF_MAP_CREATE, &attr);
}

/* *(u32 *)(fp - 4) = 0; value = lookup(map, fp - 4); if (value) ++*value; return 0 */
static int load(int map, unsigned int type, unsigned int attach, unsigned int id)
{
	const struct bpf_insn code[] = {
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_MEM | BPF_DW, 0, 1, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = type, .insn_cnt = sizeof(code) / sizeof(*code), .insns = (unsigned long)code,
		.license = (unsigned long)"GPL", .expected_attach_type = attach, .attach_btf_id = id,
		.log_level = 1, .log_size = sizeof(text), .log_buf = (unsigned long)text,
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

static void at_entry(int map, unsigned int id)
{
	int program = load(map, BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, id);
	union bpf_attr attr = { .raw_tracepoint.prog_fd = program };

	if (program < 0 || bpf(BPF_RAW_TRACEPOINT_OPEN, &attr) < 0)
		fail("fentry");
}

static void by_kprobe(int map, const char *name)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .config1 = (unsigned long)name };
	FILE *kind = fopen("/sys/bus/event_source/devices/kprobe/type", "r");
	int program = load(map, BPF_PROG_TYPE_KPROBE, 0, 0), event;

	if (program < 0 || !kind || fscanf(kind, "%u", &attr.type) != 1)
		fail("kprobe");
	event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (event < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, program) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
		fail("perf_event_open");
}

static unsigned long hits(int map)
{
	unsigned long value[CPUS] = { 0 }, sum = 0;
	unsigned int key = 0;
	union bpf_attr attr = { .map_fd = map, .key = (unsigned long)&key, .value = (unsigned long)value };

	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
		fail("lookup");
	for (int cpu = 0; cpu < CPUS; cpu++)
		sum += value[cpu];
	return sum;
}

int main(int argc, char **argv)
{
	int map = new_map();

	if (argc != 3)
		return 2;
	if (map < 0)
		fail("map");
	if (!strcmp(argv[1], "fentry"))
		at_entry(map, atoi(argv[2]));
	else
		by_kprobe(map, argv[2]);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	printf("%lu\n", hits(map));
	return 0;
}
