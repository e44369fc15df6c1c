/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lab_bpf fentry BTF_ID | kprobe NAME: a BPF program there that adds to a counter of the processor, by the system call
 * alone: no library, no compiler for BPF. It says "ready" once the program is in place, and how many hits there
 * were when its standard input ends.
 *
 * lab_bpf uprobe FILE OFFSET count|keyed|powers: the same at an instruction of a file; "keyed" has a counter for each
 * first argument, and "powers" one for each power of two of it.
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

static int new_map(unsigned int type, unsigned int key_size, unsigned int most)
{
	union bpf_attr attr = { .map_type = type, .key_size = key_size, .value_size = 8, .max_entries = most };

	return bpf(BPF_MAP_CREATE, &attr);
}

static int load(const struct bpf_insn *code, unsigned int count, unsigned int type, unsigned int attach,
		unsigned int id)
{
	union bpf_attr attr = {
		.prog_type = type, .insn_cnt = count, .insns = (unsigned long)code,
		.license = (unsigned long)"GPL", .expected_attach_type = attach, .attach_btf_id = id,
		.log_level = 1, .log_size = sizeof(text), .log_buf = (unsigned long)text,
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

/* value = lookup(map, fp - 4); if (value) ++*value; return 0 */
#define COUNTED(map) \
	INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map), \
	INSN(0, 0, 0, 0, 0), \
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0), \
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4), \
	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem), \
	INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3, 0), \
	INSN(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0), \
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1), \
	INSN(BPF_STX | BPF_MEM | BPF_DW, 0, 1, 0, 0), \
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0), \
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),

/* *(u32 *)(fp - 4) = 0; then as above */
static int load_count(int map, unsigned int type, unsigned int attach, unsigned int id)
{
	const struct bpf_insn code[] = {
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		COUNTED(map)
	};

	return load(code, sizeof(code) / sizeof(*code), type, attach, id);
}

#define ARGUMENT 112 /* rdi in struct pt_regs */
/* if (r6 >> n) { r6 >>= n; r7 += n; } */
#define HALVE(n) \
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, 1, 6, 0, 0), \
	INSN(BPF_ALU64 | BPF_RSH | BPF_K, 1, 0, 0, n), \
	INSN(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2, 0), \
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0), \
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, 7, 0, 0, n)

/* r6 = argument; r7 = 0; halve; *(u32 *)(fp - 4) = r7; then as above */
static int load_powers(int map)
{
	const struct bpf_insn code[] = {
		INSN(BPF_LDX | BPF_MEM | BPF_DW, 6, 1, ARGUMENT, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 7, 0, 0, 0),
		HALVE(32), HALVE(16), HALVE(8), HALVE(4), HALVE(2), HALVE(1),
		INSN(BPF_STX | BPF_MEM | BPF_W, 10, 7, -4, 0),
		COUNTED(map)
	};

	return load(code, sizeof(code) / sizeof(*code), BPF_PROG_TYPE_KPROBE, 0, 0);
}

/* fp[-8] = argument; value = lookup(map, fp - 8); if (value) ++*value; else { fp[-16] = 1; update(map, fp - 8, fp - 16) } */
static int load_keyed(int map)
{
	const struct bpf_insn code[] = {
		INSN(BPF_LDX | BPF_MEM | BPF_DW, 6, 1, ARGUMENT, 0),
		INSN(BPF_STX | BPF_MEM | BPF_DW, 10, 6, -8, 0),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -8),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 4, 0),
		INSN(BPF_LDX | BPF_MEM | BPF_DW, 1, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_MEM | BPF_DW, 0, 1, 0, 0),
		INSN(BPF_JMP | BPF_JA, 0, 0, 9, 0),
		INSN(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -16, 1),
		INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -8),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, 0, -16),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0, 0),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_update_elem),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};

	return load(code, sizeof(code) / sizeof(*code), BPF_PROG_TYPE_KPROBE, 0, 0);
}

static void at_entry(int map, unsigned int id)
{
	int program = load_count(map, BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, id);
	union bpf_attr attr = { .raw_tracepoint.prog_fd = program };

	if (program < 0 || bpf(BPF_RAW_TRACEPOINT_OPEN, &attr) < 0)
		fail("fentry");
}

/* Attaches a program to a perf event of that kind, "kprobe" or "uprobe". */
static void by_event(const char *kind, int program, const char *what, unsigned long offset)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .config1 = (unsigned long)what, .config2 = offset };
	char name[64];
	FILE *number;
	int event;

	snprintf(name, sizeof(name), "/sys/bus/event_source/devices/%s/type", kind);
	number = fopen(name, "r");
	if (program < 0 || !number || fscanf(number, "%u", &attr.type) != 1)
		fail(kind);
	event = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
	if (event < 0 || ioctl(event, PERF_EVENT_IOC_SET_BPF, program) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
		fail("perf_event_open");
}

static unsigned long hits(int map)
{
	unsigned long value[CPUS] = { 0 }, key = 0, sum = 0;
	union bpf_attr attr = { .map_fd = map, .key = (unsigned long)&key, .value = (unsigned long)value };
	union bpf_attr next = { .map_fd = map, .next_key = (unsigned long)&key };

	while (!bpf(BPF_MAP_GET_NEXT_KEY, &next)) {
		if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
			fail("lookup");
		for (int cpu = 0; cpu < CPUS; cpu++)
			sum += value[cpu];
		next.key = (unsigned long)&key;
	}
	return sum;
}

/* Attaches the program of that form to a uprobe; returns its map. */
static int by_uprobe(const char *file, unsigned long offset, const char *form)
{
	int keyed = !strcmp(form, "keyed"), powers = !strcmp(form, "powers");
	int map = keyed ? new_map(BPF_MAP_TYPE_PERCPU_HASH, 8, 4096)
			: new_map(BPF_MAP_TYPE_PERCPU_ARRAY, 4, powers ? 64 : 1);

	if (map < 0)
		fail("map");
	by_event("uprobe", keyed ? load_keyed(map) : powers ? load_powers(map)
		 : load_count(map, BPF_PROG_TYPE_KPROBE, 0, 0), file, offset);
	return map;
}

int main(int argc, char **argv)
{
	int map;

	if (argc == 5 && !strcmp(argv[1], "uprobe")) {
		map = by_uprobe(argv[2], strtoul(argv[3], 0, 0), argv[4]);
	} else if (argc == 3) {
		map = new_map(BPF_MAP_TYPE_PERCPU_ARRAY, 4, 1);
		if (map < 0)
			fail("map");
		if (!strcmp(argv[1], "fentry"))
			at_entry(map, atoi(argv[2]));
		else
			by_event("kprobe", load_count(map, BPF_PROG_TYPE_KPROBE, 0, 0), argv[2], 0);
	} else {
		return 2;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	printf("%lu\n", hits(map));
	return 0;
}
