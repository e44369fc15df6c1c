/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of aspects in the kernel, in one unit of their module. The module allocates it when it is loaded, and frees
 * it when it is unloaded, after the client has removed all splices that lead there. Module parameters tell the client
 * its addresses. If the state is the module's own, writing the parameter `on` switches all aspects at once. With
 * `shared` it lies in memory of the driver that processes share (ILK_SHARE), and is switched there by whoever has
 * created that.
 */
gilk_u32 gilk_set;
void (*gilk_log_pair)(gilk_u32 set, gilk_u32 iid, gilk_u64 value, gilk_u64 extra);
void (*gilk_log_string)(gilk_u32 set, gilk_u32 iid, const char *text);
void (*gilk_log_registers)(gilk_u32 set, gilk_u32 iid, const struct gilk_regs *regs);
struct gilk_here *gilk_all_here;
struct gilk_module_counts gilk_module_counts;
struct gilk_kept_call *gilk_calls_kept;
struct gilk_woven *gilk_shared_memory;
struct gilk_woven_private gilk_private_part;

static unsigned long pair, string, registers, memory, counts, shared;
module_param_named(set, gilk_set, uint, 0);
module_param(pair, ulong, 0);
module_param(string, ulong, 0);
module_param(registers, ulong, 0);
module_param(shared, ulong, 0);
module_param(memory, ulong, 0400);
module_param(counts, ulong, 0400);

static int gilk_switch(const char *value, const struct kernel_param *which)
{
	unsigned long long on;
	int wrong = kstrtoull(value, 0, &on);

	(void)which;
	if (shared) /* the driver may have freed it by now */
		return -EPERM;
	if (!wrong && gilk_shared_memory)
		__atomic_store_n(&gilk_shared_memory->on, on, __ATOMIC_SEQ_CST);
	return wrong;
}

static const struct kernel_param_ops gilk_switches = { .set = gilk_switch };
module_param_cb(on, &gilk_switches, NULL, 0200);

/* Convert limits from ns to ticks, at the TSC rate that the kernel has measured. */
static void gilk_set_limits(void)
{
	int n;

	gilk_private_part.scale = (gilk_u64)(((unsigned __int128)1000000 << 32) / tsc_khz);
	for (n = 0; n < GILK_ASPECTS; n++) {
		gilk_private_part.limits[n] = gilk_limits_given[n];
		if (gilk_limits_given[n].within)
			gilk_private_part.limits[n].within =
				max_t(gilk_u64, mul_u64_u64_div_u64(gilk_limits_given[n].within, tsc_khz, 1000000), 1);
	}
}

static void gilk_free(void)
{
	if (!shared)
		vfree(gilk_shared_memory);
	vfree(gilk_calls_kept);
	vfree(gilk_all_here);
}

static int __init gilk_aspects_load(void)
{
	gilk_log_pair = (void *)pair;
	gilk_log_string = (void *)string;
	gilk_log_registers = (void *)registers;
	gilk_shared_memory = shared ? (void *)shared : vzalloc(PAGE_ALIGN(GILK_STATE_SIZE));
	gilk_calls_kept = vzalloc(GILK_ACTIVATIONS * sizeof(struct gilk_kept_call));
	gilk_all_here = vzalloc(nr_cpu_ids * sizeof(struct gilk_here));
	if (!gilk_shared_memory || !gilk_calls_kept || !gilk_all_here) {
		gilk_free();
		return -ENOMEM;
	}
	gilk_set_limits();
	memory = (unsigned long)gilk_shared_memory;
	counts = (unsigned long)&gilk_module_counts;
	return 0;
}

static void __exit gilk_aspects_unload(void)
{
	gilk_free();
}

module_init(gilk_aspects_load);
module_exit(gilk_aspects_unload);
MODULE_DESCRIPTION("Aspects of gilk");
MODULE_LICENSE("GPL");
