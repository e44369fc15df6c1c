// SPDX-License-Identifier: GPL-2.0
/* Programs of clients: created from a message after its checks, and freed when no code runs them any more. */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "d.h"
#include "layout.h"

static u64 size_of_tables(const struct ilk_d_program *m)
{
	return m->rows * (u64)sizeof(struct ilk_d_aggregation) + m->edges * 8ull + m->groups * 4ull +
	       m->names * 4ull + m->constants + m->code;
}

static bool is_possible(const struct ilk_d_program *m, u32 size)
{
	return !(m->flags & ~(ILK_D_UNWATCHED | ILK_D_DESTRUCTIVE)) && !m->reserved && m->frame >= ILK_D_HEAD && m->frame <= ILK_D_FRAME_MAX &&
	       m->frame % 8 == 0 && m->code && m->code <= ILK_D_CODE_MAX && m->groups && m->constants &&
	       m->names % 4 == 0 && m->clausetime <= ILK_D_TIME_MAX && m->rows < m->layout.aggregations &&
	       size_of_tables(m) == size - sizeof(*m) && ilk_d_layout_fits(&m->layout);
}

static bool ascend(const u64 *edge, u32 count)
{
	u32 i;

	for (i = 1; i < count; i++)
		if (edge[i - 1] >= edge[i])
			return false;
	return true;
}

static bool is_distribution(const struct ilk_program *p, const struct ilk_d_aggregation *row)
{
	if (row->function == ILK_D_LQUANTIZE)
		return row->low < row->high && row->step > 0 &&
		       ((u64)row->high - (u64)row->low) / (u64)row->step + 2 <= ILK_D_CELLS_MAX;
	if (row->function == ILK_D_LLQUANTIZE)
		return row->edges && row->edges <= ILK_D_CELLS_MAX / 2 && row->edge <= p->clauses.sizes.edges &&
		       row->edges <= p->clauses.sizes.edges - row->edge && ascend(p->clauses.edges + row->edge, row->edges);
	return true;
}

static bool are_rows(const struct ilk_program *p)
{
	u32 i;

	for (i = 0; i < p->clauses.sizes.rows; i++) {
		const struct ilk_d_aggregation *row = &p->clauses.rows[i];

		if (row->function >= ILK_D_FUNCTIONS || row->key_size > p->clauses.sizes.frame || row->key_size % 8 ||
		    !is_distribution(p, row))
			return false;
	}
	return true;
}

/* Whether all names are offsets of strings in the constants, which end with a NUL. */
static bool are_names(const struct ilk_program *p)
{
	u32 i;

	if (p->clauses.constants[p->clauses.sizes.constants - 1])
		return false;
	for (i = 0; i < p->clauses.sizes.names; i++)
		if (p->clauses.names[i] >= p->clauses.sizes.constants)
			return false;
	return true;
}

static void free_program(struct ilk_program *p)
{
	if (p->code)
		ilk_code_free(p->code);
	ilk_d_images_free(p->clauses.images);
	free_percpu(p->missed);
	vfree(p->clauses.memory);
	kvfree(p->tables);
	kfree(p);
}

/* Initialize the memory as gilk_d.h describes it. */
static void initialise(struct ilk_program *p)
{
	const struct gd_layout *l = &p->clauses.layout;
	u64 i;

	for (i = 0; i < l->buffers; i++)
		((struct gd_buffer *)(p->clauses.memory + l->buffer_first + i * l->buffer_stride))->limit = l->buffer_size;
	for (i = 0; i < GD_BANKS * l->shards; i++)
		((struct gd_table *)(p->clauses.memory + l->table_first + i * l->table_stride))->used = GD_GRANULE;
}

static int allocate(struct ilk_program *p, const struct ilk_d_program *m)
{
	p->clauses.sizes = *m;
	p->clauses.layout = m->layout;
	p->clauses.deeds = &p->deeds;
	p->deeds.client = current->tgid;
	INIT_LIST_HEAD(&p->clocks);
	INIT_LIST_HEAD(&p->points);
	INIT_LIST_HEAD(&p->counted);
	INIT_LIST_HEAD(&p->uprobes);
	p->clauses.memory = vzalloc(m->layout.size);
	p->missed = __alloc_percpu(2 * sizeof(u64), sizeof(u64));
	p->tables = kvmalloc(size_of_tables(m), GFP_KERNEL);
	p->clauses.images = ilk_d_images_create();
	if (!p->clauses.memory || !p->missed || !p->tables || !p->clauses.images)
		return -ENOMEM;
	memcpy(p->tables, m + 1, size_of_tables(m));
	ilk_d_place_tables(&p->clauses, p->tables);
	initialise(p);
	return are_rows(p) && are_names(p) ? ilk_d_runs_create() : -EINVAL;
}

int ilk_d_program_create(struct ilk_client *client, struct ilk_d_program *message, u32 size)
{
	struct ilk_program *p;
	int error;

	if (client->program)
		return -EBUSY;
	if (!is_possible(message, size))
		return -EINVAL;
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	error = allocate(p, message);
	if (!error)
		error = ilk_d_prove(message, p, (const u8 *)p->clauses.constants + message->constants);
	if (error || message->verdict)
		free_program(p);
	else
		client->program = p;
	if (client->program)
		ilk_d_watch();
	return error;
}

/* Free the program after a grace period: its attachments are removed, and code that has seen one has interrupts off. */
void ilk_d_program_free(struct ilk_client *client)
{
	struct ilk_program *p = client->program;

	if (!p)
		return;
	WRITE_ONCE(((struct gd_control *)p->clauses.memory)->state, GD_INACTIVE);
	ilk_d_clocks_stop(p);
	ilk_d_points_stop(p);
	ilk_d_perf_stop(p);
	synchronize_rcu();
	client->program = NULL;
	free_program(p);
}
