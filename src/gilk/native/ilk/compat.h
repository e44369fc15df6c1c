/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The differences between kernels, and the functions of the kernel that it does
 * not export. No other file of the driver names a version.
 */
#ifndef ILK_COMPAT_H
#define ILK_COMPAT_H

#include <linux/version.h>
#include <linux/mount.h>
#include <linux/types.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0) || LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#error "ilk: this kernel is not supported: 6.1 only"
#endif

struct insn;
struct kprobe;
struct module;
struct mutex;
struct exception_table_entry;
struct jump_entry;
struct static_call_site;
struct ftrace_func_entry;
struct ftrace_ops;
struct ftrace_regs;

/* A copy of the struct in kernel/trace/trace.h, which modules cannot include. */
struct ftrace_hash {
	unsigned long size_bits;
	struct hlist_head *buckets;
	unsigned long count;
	unsigned long flags;
	struct rcu_head rcu;
};

/* The beginning of struct mount (fs/mount.h): the parent mount, and the mount point. */
struct ilk_mount {
	struct hlist_node hash;
	struct ilk_mount *parent;
	struct dentry *place;
	struct vfsmount mnt;
};

/* Kernel functions by name, result and parameters. The driver does not load if one is missing. */
#define ILK_KERNEL_FUNCTIONS(F)                                                                    \
	F(text_poke_copy, void *, (void *addr, const void *opcode, size_t len))                    \
	F(text_poke, void *, (void *addr, const void *opcode, size_t len))                         \
	F(text_poke_queue, void, (void *addr, const void *op, size_t len, const void *emulate))    \
	F(text_poke_finish, void, (void))                                                          \
	F(text_poke_sync, void, (void))                                                            \
	F(module_alloc, void *, (unsigned long size))                                              \
	F(module_memfree, void, (void *region))                                                    \
	F(set_memory_ro, int, (unsigned long addr, int pages))                                     \
	F(set_memory_x, int, (unsigned long addr, int pages))                                      \
	F(insn_decode, int, (struct insn *insn, const void *code, int length, int mode))           \
	F(within_kprobe_blacklist, bool, (unsigned long addr))                                     \
	F(get_kprobe, struct kprobe *, (void *addr))                                               \
	F(jump_label_lock, void, (void))                                                           \
	F(jump_label_unlock, void, (void))                                                         \
	F(jump_label_text_reserved, int, (void *start, void *last))                                \
	F(static_call_text_reserved, int, (void *start, void *last))                               \
	F(ftrace_text_reserved, int, (const void *start, const void *last))                        \
	F(ftrace_location, unsigned long, (unsigned long ip))                                      \
	F(call_direct_funcs, void,                                                                 \
	  (unsigned long ip, unsigned long parent, struct ftrace_ops *ops,                         \
	   struct ftrace_regs *regs))                                                              \
	F(ftrace_lookup_ip, struct ftrace_func_entry *,                                            \
	  (struct ftrace_hash *hash, unsigned long ip))                                            \
	F(alternatives_text_reserved, int, (void *start, void *end))                               \
	F(search_exception_tables, const struct exception_table_entry *, (unsigned long addr))     \
	F(arch_jump_entry_size, int, (struct jump_entry * entry))                                  \
	F(kallsyms_lookup_size_offset, int,                                                        \
	  (unsigned long addr, unsigned long *size, unsigned long *offset))                        \
	F(core_kernel_text, int, (unsigned long addr))                                             \
	F(__module_text_address, struct module *, (unsigned long addr))                            \
	F(__alloc_reserved_percpu, void __percpu *, (size_t size, size_t align))

/*
 * Functions that run between an int3 and our handler although kprobes are not forbidden in them: the kernel asks
 * kprobes first, and then calls our handler by a notifier chain, which it walks under RCU. An int3 of ours in one of
 * these functions, or in a notifier that comes before ours (trap.c), would trap for ever.
 */
#define ILK_ON_THE_WAY(D)                                                                          \
	D(__rcu_read_lock, char)                                                                   \
	D(__rcu_read_unlock, char)

/* One more, which its only caller, __rcu_read_unlock(), may have inlined. Compilers give copies other names. */
#define ILK_MAYBE_ON_THE_WAY(D) D(rcu_read_unlock_special, char)
#define ILK_COPIES "", ".constprop.0", ".isra.0", ".part.0"

/* Functions that never return; this kernel may lack some of them. No code follows a call of one. */
#define ILK_NEVER_RETURN 5
#define ILK_NEVER_RETURN_NAMES                                                                     \
	"__stack_chk_fail", "panic", "do_exit", "make_task_dead", "fortify_panic"

#define ILK_KERNEL_DATA(D)                                                                         \
	D(text_mutex, struct mutex)                                                                \
	D(kprobe_mutex, struct mutex)                                                              \
	D(direct_mutex, struct mutex)                                                              \
	D(ftrace_lock, struct mutex)                                                               \
	D(die_chain, struct atomic_notifier_head)                                                  \
	D(direct_functions, struct ftrace_hash *)                                                  \
	D(ftrace_regs_caller, char)                                                                \
	D(__start___jump_table, struct jump_entry)                                                 \
	D(__stop___jump_table, struct jump_entry)                                                  \
	D(__start___ex_table, struct exception_table_entry)                                        \
	D(__stop___ex_table, struct exception_table_entry)                                         \
	D(__start_static_call_sites, struct static_call_site)                                      \
	D(__stop_static_call_sites, struct static_call_site)                                       \
	D(_stext, char)                                                                            \
	D(_etext, char)                                                                            \
	D(_sinittext, char)                                                                        \
	D(_einittext, char)

struct ilk_kernel {
#define ILK_FUNCTION_FIELD(name, result, parameters) result(*name) parameters;
	ILK_KERNEL_FUNCTIONS(ILK_FUNCTION_FIELD)
#undef ILK_FUNCTION_FIELD
#define ILK_DATA_FIELD(name, type) type *name;
	ILK_KERNEL_DATA(ILK_DATA_FIELD)
	struct {
		ILK_ON_THE_WAY(ILK_DATA_FIELD)
		ILK_MAYBE_ON_THE_WAY(ILK_DATA_FIELD)
	} way;
#undef ILK_DATA_FIELD
};

extern struct ilk_kernel ilk_kernel;

/* Keep a mapping from ever becoming writable or executable. */
#define ILK_KEEP_READ_ONLY(vma) ((vma)->vm_flags &= ~(VM_MAYWRITE | VM_MAYEXEC))
#define ILK_KEEP_FROM_CHILDREN(vma) ((vma)->vm_flags = ((vma)->vm_flags & ~VM_MAYEXEC) | VM_DONTCOPY)

/* The per-CPU word with the running task. */
#define ILK_CURRENT_WORD current_task

/* The per-CPU word with the preemption and interrupt counts (linux/preempt.h). */
#define ILK_PREEMPT_WORD __preempt_count

#endif
