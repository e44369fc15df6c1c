/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Paths of files, as /proc/PID/fd has them, from dentries and mounts that others may change meanwhile.
 *
 * No lock is taken. Everything is read by safe loads, and nothing twice for the same purpose: the path of a file that
 * is being renamed has old names, new ones, or both. A struct mount is trusted only if its members fit each other. A
 * path that is longer or deeper than there is room for, or whose beginning cannot be found, begins with "...".
 */
#ifndef ILK_D_FILES_H
#define ILK_D_FILES_H

#include "texts.h"

#define ILK_D_STEPS 32 /* components and mounts of a path: costs of helpers count on it */
#define ILK_D_COMPONENT 255 /* bytes of one */

enum { ILK_D_OF_PATH, ILK_D_OF_MOUNT, ILK_D_OF_DENTRY, ILK_D_OF_CWD, ILK_D_OF_ROOT, ILK_D_OF = 15 };
#define GONE " (deleted)"

enum { ILK_D_ALL, ILK_D_LAST = 16, ILK_D_DIRECTORY = 32 };

struct place {
	u64 dentry;
	u64 mount; /* 0: unknown */
};

struct piece {
	u64 name;
	u64 length;
};

/* A walk from the last component to the root. `cut`: it has not reached the root. */
struct walk {
	struct gd_context *ctx;
	struct place at, root;
	u64 top; /* the root of the mount */
	u32 count;
	bool cut;
	struct piece piece[ILK_D_STEPS];
};

struct named {
	u64 parent;
	struct piece piece;
};

static u64 load_word(struct gd_context *ctx, u64 address)
{
	u64 found = 0;

	return gd_load(ctx, &found, address, sizeof(found)) ? found : 0;
}

/* Read the parent and the name of a dentry by one load. */
static bool look_at(struct gd_context *ctx, u64 dentry, struct named *found)
{
	u8 seen[ILK_D_DENTRY_SIZE];
	u32 length;

	if (!gd_load(ctx, seen, dentry + ILK_D_DENTRY_FROM, sizeof(seen)))
		return false;
	__builtin_memcpy(&found->parent, seen + ILK_D_DENTRY_PARENT - ILK_D_DENTRY_FROM, 8);
	__builtin_memcpy(&found->piece.name, seen + ILK_D_DENTRY_NAME - ILK_D_DENTRY_FROM, 8);
	__builtin_memcpy(&length, seen + ILK_D_DENTRY_LENGTH - ILK_D_DENTRY_FROM, 4);
	found->piece.length = length < ILK_D_COMPONENT ? length : ILK_D_COMPONENT;
	return true;
}

/* Go up to the mount point. False: the mount is mounted nowhere, or the struct mount does not fit. */
static bool go_up(struct walk *w)
{
	u64 above[2], seen[ILK_D_MOUNT_SIZE / 8]; /* the parent mount and the mount point; the parent's own members */
	u64 mount;

	if (!gd_load(w->ctx, above, w->at.mount - ILK_D_MOUNT_ABOVE, sizeof(above)))
		return false;
	mount = above[0] + ILK_D_MOUNT_AT;
	if (mount == w->at.mount)
		return false;
	if (!gd_load(w->ctx, seen, mount, sizeof(seen)))
		return false;
	if (load_word(w->ctx, above[1] + ILK_D_DENTRY_SUPER) != seen[ILK_D_MOUNT_SUPER / 8]) {
		w->cut = true;
		return false;
	}
	w->at.dentry = above[1];
	w->at.mount = mount;
	w->top = seen[ILK_D_MOUNT_ROOT / 8];
	return true;
}

static void walk_up(struct walk *w)
{
	struct named found;
	u32 step;

	w->top = w->at.mount ? load_word(w->ctx, w->at.mount + ILK_D_MOUNT_ROOT) : 0;
	for (step = 0; !w->ctx->fault; step++) {
		if (w->at.dentry == w->root.dentry && w->at.mount == w->root.mount)
			return;
		if (step == ILK_D_STEPS) {
			w->cut = true;
			return;
		}
		if (w->at.dentry == w->top) {
			if (!go_up(w))
				return;
			continue;
		}
		if (!look_at(w->ctx, w->at.dentry, &found) || found.parent == w->at.dentry)
			return;
		w->piece[w->count++] = found.piece;
		w->at.dentry = found.parent;
	}
}

/* The text that is written: `size` bytes, the last of which is the NUL. */
struct text {
	struct gd_context *ctx;
	char *to;
	u64 size;
	u64 at;
};

static void write_text(struct text *t, const char *what)
{
	while (*what && t->at + 1 < t->size) {
		t->to[t->at++] = *what++;
		GD_LOOP();
	}
}

static void write_name(struct text *t, const struct piece *piece)
{
	u64 room = t->size - 1 - t->at, length = piece->length < room ? piece->length : room;

	if (gd_load(t->ctx, t->to + t->at, piece->name, length))
		t->at += length;
}

static void write_number(struct text *t, u64 number)
{
	char digits[21];
	u32 at = sizeof(digits) - 1;

	digits[at] = 0;
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
		GD_LOOP();
	} while (number && at);
	write_text(t, digits + at);
}

/* How many components, from the last one on, fit into the room. */
static u32 fitting(const struct walk *w, u32 from, u64 room)
{
	u32 n;

	for (n = from; n < w->count && w->piece[n].length + 1 <= room; n++) {
		room -= w->piece[n].length + 1;
		GD_LOOP();
	}
	return n;
}

static void write_path(struct text *t, struct walk *w, u32 from, const char *behind)
{
	u64 end = *behind ? sizeof(GONE) : 1, all = t->size > end ? t->size - end : 0;
	u32 n = fitting(w, from, all);

	if (w->cut || n < w->count) {
		write_text(t, "...");
		n = fitting(w, from, all > 3 ? all - 3 : 0);
		n = n == from && from < w->count ? from + 1 : n;
	}
	if (n == from && !w->cut)
		write_text(t, "/");
	while (n > from) {
		write_text(t, "/");
		write_name(t, &w->piece[--n]);
	}
	write_text(t, behind);
}

/* Write the name of a kind of namespace: a short string that ends with a zero. */
static void write_kind(struct text *t, u64 dentry)
{
	u64 from = load_word(t->ctx, load_word(t->ctx, dentry + ILK_D_DENTRY_DATA));
	char kind[17] = { 0 };

	if (gd_load(t->ctx, kind, from, 16))
		write_text(t, kind);
}

static void write_inode(struct text *t, u64 dentry)
{
	write_number(t, load_word(t->ctx, load_word(t->ctx, dentry + ILK_D_DENTRY_INODE) + ILK_D_INODE_NUMBER));
	write_text(t, "]");
}

/* Write the name of a file without a path (a pipe, a socket), by the file system that it is in. */
static void write_special(struct text *t, u64 dentry, u64 part)
{
	u64 magic = load_word(t->ctx, load_word(t->ctx, dentry + ILK_D_DENTRY_SUPER) + ILK_D_SUPER_MAGIC);
	bool numbered = magic == ILK_D_PIPES || magic == ILK_D_SOCKETS || magic == ILK_D_NAMESPACES;
	bool anonymous = magic == ILK_D_ANONYMOUS;
	struct named found;

	if (part == ILK_D_DIRECTORY) {
		write_text(t, numbered || anonymous ? "." : "/");
		return;
	}
	if (magic == ILK_D_NAMESPACES)
		write_kind(t, dentry);
	if (numbered) {
		write_text(t, magic == ILK_D_PIPES ? "pipe:[" : magic == ILK_D_SOCKETS ? "socket:[" : ":[");
		write_inode(t, dentry);
		return;
	}
	write_text(t, anonymous ? "anon_inode:" : part == ILK_D_LAST ? "" : "/");
	if (look_at(t->ctx, dentry, &found))
		write_name(t, &found.piece);
	write_text(t, anonymous ? "" : GONE);
}

/* Whether the file system makes up the file's name; not so for a mount point. */
static bool is_special(struct gd_context *ctx, const struct place *at, u64 top)
{
	u64 operations = at->dentry == top ? 0 : load_word(ctx, at->dentry + ILK_D_DENTRY_OPERATIONS);

	return operations && load_word(ctx, operations + ILK_D_OPERATIONS_NAME);
}

/* Whether the file has been removed. */
static bool is_gone(struct gd_context *ctx, u64 dentry)
{
	struct named found;

	return !load_word(ctx, dentry + ILK_D_DENTRY_HASHED) && look_at(ctx, dentry, &found) && found.parent != dentry;
}

static void write_file(struct text *t, struct walk *w, u64 part)
{
	u64 dentry = w->at.dentry, top = w->at.mount ? load_word(t->ctx, w->at.mount + ILK_D_MOUNT_ROOT) : 0;
	bool gone;

	if (is_special(t->ctx, &w->at, top)) {
		write_special(t, dentry, part);
		return;
	}
	gone = part != ILK_D_DIRECTORY && is_gone(t->ctx, dentry);
	walk_up(w);
	if (part == ILK_D_LAST && w->count) {
		write_name(t, &w->piece[0]);
		write_text(t, gone ? GONE : "");
	} else {
		write_path(t, w, part == ILK_D_DIRECTORY && w->count, gone ? GONE : "");
	}
}

/* Load the root directory of process 1, from which all paths are told. */
static void load_first_root(struct walk *w)
{
	u64 first = load_word(w->ctx, ilk_d_first());

	w->root.dentry = load_word(w->ctx, first + ILK_D_FIRST_ROOT + ILK_D_PATH_DENTRY);
	w->root.mount = load_word(w->ctx, first + ILK_D_FIRST_ROOT + ILK_D_PATH_MOUNT);
}

/* Begin the walk at the object of type `kind` at `address`. False: it has no path. */
static bool begin_at(struct walk *w, u64 kind, u64 address)
{
	ilk_d_directory(false, &w->root.dentry, &w->root.mount);
	switch (kind) {
	case ILK_D_OF_PATH:
		w->at.dentry = load_word(w->ctx, address + ILK_D_PATH_DENTRY);
		w->at.mount = load_word(w->ctx, address + ILK_D_PATH_MOUNT);
		return true;
	case ILK_D_OF_MOUNT:
		w->at.mount = address;
		w->at.dentry = w->root.dentry;
		return address == w->root.mount || go_up(w) || w->cut;
	case ILK_D_OF_DENTRY:
		w->at.dentry = address;
		return true;
	}
	if (kind == ILK_D_OF_CWD) {
		ilk_d_directory(true, &w->at.dentry, &w->at.mount);
		return w->at.dentry;
	}
	w->at = w->root;
	load_first_root(w);
	return w->at.dentry;
}

HELPER(path_text)
{
	struct ilk_run *run = run_of(frame);
	struct text text = { &run->context, text_at(run, b, d), d, 0 };
	struct walk walk = { .ctx = &run->context };

	if (!text.to || !d)
		return 0;
	if (begin_at(&walk, a & ILK_D_OF, c))
		write_file(&text, &walk, a & ~(u64)ILK_D_OF);
	else
		write_text(&text, "<unknown>");
	text.to[text.at] = 0;
	return made(run, text.to);
}

/*
 * The arguments of the running process, if `mm` is its memory, separated by blanks, as far as their pages are in
 * memory. The empty string for any other process.
 */
HELPER(arguments)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, c);
	u64 start, end, size, first, i;

	if (!to || !c)
		return 0;
	to[0] = 0;
	size = ilk_d_arguments(b, &start, &end) && end > start ? end - start : 0;
	size = size < c - 1 ? size : c - 1;
	first = GILK_PAGE - (start & (GILK_PAGE - 1));
	if (size && host_peek(gd_self(&run->context), to, start, size))
		size = size > first && !host_peek(gd_self(&run->context), to, start, first) ? first : 0;
	while (size && !to[size - 1])
		size--;
	for (i = 0; i < size; i++) {
		to[i] = to[i] ? to[i] : ' ';
		GD_LOOP();
	}
	gd_zero(to + size, c - size);
	return 1;
}

#endif
