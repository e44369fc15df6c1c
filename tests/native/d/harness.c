/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The runtime of D as functions that ctypes can call. A session is one memory
 * with one event, as if everything were the same hit of the same clause.
 */
#include "runtime/d/deeds.h"

#define OUT __attribute__((visibility("default")))

struct session {
	struct gd_context ctx;
	struct gd_layout layout;
	struct gd_event event;
	gd_u64 signals;
};

OUT unsigned long t_session_size(void)
{
	return sizeof(struct session);
}

OUT void t_open(struct session *s, gd_u8 *memory, const struct gd_layout *layout, gd_u32 cpu, gd_u32 tid, gd_u64 time)
{
	gd_bcopy(&s->layout, layout, sizeof s->layout);
	s->event.time = time;
	s->event.cpu = cpu;
	s->event.tid = tid;
	s->event.pid = 77;
	s->event.thread = tid;
	gd_begin(&s->ctx, memory, &s->layout, &s->event);
	s->signals = 0;
	s->ctx.signals = &s->signals;
}

OUT void t_end(struct session *s)
{
	gd_end(&s->ctx);
}

OUT gd_u32 t_fault(struct session *s)
{
	return s->ctx.fault;
}

OUT gd_u64 t_fault_address(struct session *s)
{
	return s->ctx.address;
}

OUT void t_clear_fault(struct session *s)
{
	s->ctx.fault = 0;
}

OUT void t_report(struct session *s, gd_u32 epid, gd_u32 action, gd_u32 offset)
{
	gd_report(&s->ctx, epid, action, offset);
}

OUT void t_exit(struct session *s, gd_u32 status)
{
	gd_exit(&s->ctx, status);
}

OUT bool t_reserve(struct session *s, gd_u32 epid, const void *data, gd_u32 size)
{
	if (!gd_reserve(&s->ctx, epid, size))
		return false;
	gd_bcopy(s->ctx.data, data, size);
	return true;
}

OUT void t_commit(struct session *s)
{
	gd_commit(&s->ctx);
}

OUT void t_discard(struct session *s)
{
	gd_discard(&s->ctx);
}

OUT gd_u64 t_speculation(struct session *s)
{
	return gd_speculation(&s->ctx);
}

OUT void t_speculate(struct session *s, gd_u64 id)
{
	gd_speculate(&s->ctx, id);
}

OUT void t_commit_speculation(struct session *s, gd_u64 id)
{
	gd_commit_speculation(&s->ctx, id);
}

OUT void t_discard_speculation(struct session *s, gd_u64 id)
{
	gd_discard_speculation(&s->ctx, id);
}

/* what: in the order of data.py's Function. p: low, high, step. */
OUT void t_aggregate(struct session *s, int what, gd_u32 number, const void *key, gd_u32 size, gd_s64 value, gd_s64 weight,
		     const gd_s64 *p, const gd_u64 *edges, gd_u32 count)
{
	struct gd_context *ctx = &s->ctx;

	switch (what) {
	case 0:
		gd_count(ctx, number, key, size);
		break;
	case 1:
		gd_sum(ctx, number, key, size, value);
		break;
	case 2:
		gd_min(ctx, number, key, size, value);
		break;
	case 3:
		gd_max(ctx, number, key, size, value);
		break;
	case 4:
		gd_avg(ctx, number, key, size, value);
		break;
	case 5:
		gd_stddev(ctx, number, key, size, value);
		break;
	case 6:
		gd_quantize(ctx, number, key, size, value, weight);
		break;
	case 7:
		gd_lquantize(ctx, number, key, size, value, p[0], p[1], p[2], weight);
		break;
	case 8:
		gd_llquantize(ctx, number, key, size, value, edges, count, weight);
		break;
	}
}

OUT bool t_dynamic_load(struct session *s, gd_u32 variable, const void *key, gd_u32 key_size, void *to, gd_u32 size)
{
	return gd_dynamic_load(&s->ctx, variable, key, key_size, to, size);
}

OUT bool t_dynamic_store(struct session *s, gd_u32 variable, const void *key, gd_u32 key_size, const void *from, gd_u32 size)
{
	return gd_dynamic_store(&s->ctx, variable, key, key_size, from, size);
}

OUT void t_dynamic_delete(struct session *s, gd_u32 variable, const void *key, gd_u32 key_size)
{
	gd_dynamic_delete(&s->ctx, variable, key, key_size);
}

OUT void *t_alloca(struct session *s, gd_u64 size)
{
	return gd_alloca(&s->ctx, size);
}

OUT bool t_load(struct session *s, void *to, gd_u64 address, gd_u64 size)
{
	return gd_load(&s->ctx, to, address, size);
}

OUT bool t_store(struct session *s, gd_u64 address, const void *from, gd_u64 size)
{
	return gd_store(&s->ctx, address, from, size);
}

OUT bool t_store_string(struct session *s, gd_u64 address, const char *text, gd_u64 most)
{
	return gd_store_string(&s->ctx, address, text, most);
}

OUT bool t_ask_signal(struct session *s, gd_s64 number)
{
	return gd_ask_signal(&s->ctx, number);
}

OUT void t_no_memory(struct session *s)
{
	s->ctx.no_memory = 1;
}

OUT gd_u64 t_signals(struct session *s)
{
	return s->signals;
}

OUT void t_send_signals(struct session *s)
{
	gd_send_signals(s->ctx.event, false, s->signals);
	s->signals = 0;
}

OUT bool t_chill(struct session *s, gd_s64 ns)
{
	return gd_chill(&s->ctx, ns);
}

OUT bool t_copyin_string(struct session *s, char *to, gd_u64 from, gd_u64 size)
{
	return gd_copyin_string(&s->ctx, to, from, size);
}

OUT gd_u64 t_strlen(struct session *s, const char *a)
{
	return gd_strlen(&s->ctx, a);
}

OUT int t_strcmp(struct session *s, const char *a, const char *b)
{
	return gd_strcmp(&s->ctx, a, b);
}

OUT void t_strpad(char *text, gd_u64 size)
{
	gd_strpad(text, size);
}

OUT char *t_strjoin(struct session *s, char *to, const char *a, const char *b)
{
	return gd_strjoin(&s->ctx, to, a, b);
}

OUT char *t_substr(struct session *s, char *to, const char *a, gd_s64 index, gd_s64 length)
{
	return gd_substr(&s->ctx, to, a, index, length);
}

OUT gd_s64 t_index(struct session *s, const char *a, const char *b, gd_s64 start)
{
	return gd_index(&s->ctx, a, b, start);
}

OUT gd_s64 t_rindex(struct session *s, const char *a, const char *b, gd_s64 start)
{
	return gd_rindex(&s->ctx, a, b, start);
}

OUT char *t_strchr(struct session *s, const char *a, int c)
{
	return gd_strchr(&s->ctx, a, c);
}

OUT char *t_strrchr(struct session *s, const char *a, int c)
{
	return gd_strrchr(&s->ctx, a, c);
}

OUT char *t_strstr(struct session *s, const char *a, const char *b)
{
	return gd_strstr(&s->ctx, a, b);
}

OUT char *t_strtok(struct session *s, char *to, const char *a, const char *b)
{
	return gd_strtok(&s->ctx, to, a, b);
}

OUT char *t_basename(struct session *s, char *to, const char *a)
{
	return gd_basename(&s->ctx, to, a);
}

OUT char *t_dirname(struct session *s, char *to, const char *a)
{
	return gd_dirname(&s->ctx, to, a);
}

OUT char *t_cleanpath(struct session *s, char *to, const char *a)
{
	return gd_cleanpath(&s->ctx, to, a);
}

OUT char *t_toupper(struct session *s, char *to, const char *a)
{
	return gd_toupper(&s->ctx, to, a);
}

OUT char *t_tolower(struct session *s, char *to, const char *a)
{
	return gd_tolower(&s->ctx, to, a);
}

OUT char *t_lltostr(struct session *s, char *to, gd_s64 value, gd_s64 base)
{
	return gd_lltostr(&s->ctx, to, value, base);
}

OUT gd_s64 t_strtoll(struct session *s, const char *a, gd_s64 base)
{
	return gd_strtoll(&s->ctx, a, base);
}

OUT char *t_inet_ntoa(struct session *s, char *to, const gd_u8 *a)
{
	return gd_inet_ntoa(&s->ctx, to, a);
}

OUT char *t_inet_ntoa6(struct session *s, char *to, const gd_u8 *a)
{
	return gd_inet_ntoa6(&s->ctx, to, a);
}

OUT gd_u64 t_rand(struct session *s)
{
	return gd_rand(&s->ctx);
}

OUT gd_u64 t_vtimestamp(struct session *s)
{
	gd_u64 kept = 0, first = gd_vtimestamp(&kept);

	(void)s;
	return gd_vtimestamp(&kept) == first ? first : 0; /* it is asked for once */
}

OUT const char *t_cwd(struct session *s, char *to)
{
	return gd_cwd(to, s->layout.strsize);
}

OUT char *t_fdpath(struct session *s, char *to, gd_s64 fd)
{
	return gd_fdpath(&s->ctx, to, fd);
}

OUT gd_s64 t_fdoffset(struct session *s, gd_s64 fd)
{
	return gd_fdoffset(&s->ctx, fd);
}

OUT gd_s64 t_fdflags(struct session *s, gd_s64 fd)
{
	return gd_fdflags(&s->ctx, fd);
}

OUT gd_s64 t_fdmount(struct session *s, gd_s64 fd)
{
	return gd_fdmount(&s->ctx, fd);
}

OUT char *t_threadname(struct session *s, char *to)
{
	return gd_threadname(&s->ctx, to);
}

OUT gd_s64 t_threadnice(struct session *s)
{
	return gd_threadnice(&s->ctx);
}

OUT gd_s64 t_threadpriority(struct session *s)
{
	return gd_threadpriority(&s->ctx);
}

OUT gd_u64 t_walk(struct session *s, const gd_u64 *regs, gd_u64 *to, gd_u64 most)
{
	s->event.regs = regs;
	return gd_walk_stack(&s->ctx, to, most);
}
