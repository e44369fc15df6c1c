/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The probes of io: see docs/d/providers.md. providers/kernel/io.py has their places. A bio stands for DTrace's buf.
 */
#pragma D depends_on library file_types.d

typedef struct bufinfo {
	int b_flags;
	size_t b_bcount;
	uintptr_t b_addr;
	uint64_t b_blkno;
	uint64_t b_lblkno;
	size_t b_resid;
	size_t b_bufsize;
	uintptr_t b_iodone;
	int b_error;
	dev_t b_edev;
} bufinfo_t;

typedef struct devinfo {
	int dev_major;
	int dev_minor;
	int dev_instance;
	string dev_name;
	string dev_statname;
	string dev_pathname;
} devinfo_t;

/* The numbers are DTrace's, which scripts write out. */
inline int B_ERROR = 0x004;
inline int B_READ = 0x040;
inline int B_WRITE = 0x100;
inline int B_ASYNC = 0x400;

/*
 * A wait for a buffer of xfs has no bio: the address of the buffer is odd here, and the probe's arg3 to arg6 are its
 * flags, of which the second is XBF_WRITE, its length in blocks of 512 bytes, its block and its device.
 */
inline int is_buffer[struct bio *B] = (uintptr_t)B & 1;
inline struct block_device *io_device[struct bio *B] = is_buffer[B] ? (struct block_device *)arg6 : B->bi_bdev;
inline uint64_t io_block[struct bio *B] = is_buffer[B] ? (uint64_t)arg5 : B->bi_iter.bi_sector;
inline size_t io_size[struct bio *B] = is_buffer[B] ? (size_t)arg4 << 9 : B->bi_iter.bi_size;

/* The operation is in the eight lowest bits of bi_opf: 0 reads, odd numbers write. Bit 11 is REQ_SYNC. */
inline int bio_flags[struct bio *B] = (B->bi_opf & 1 ? B_WRITE : B_READ) | (B->bi_opf & 0x800 ? 0 : B_ASYNC) |
	(B->bi_status ? B_ERROR : 0);

translator bufinfo_t < struct bio *B > {
	b_flags = is_buffer[B] ? (arg3 & 2 ? B_WRITE : B_READ) : bio_flags[B];
	b_bcount = io_size[B];
	b_addr = (uintptr_t)B & ~1UL;
	b_blkno = io_block[B];
	b_lblkno = io_block[B];
	b_resid = 0;
	b_bufsize = io_size[B];
	b_iodone = is_buffer[B] ? 0 : (uintptr_t)B->bi_end_io;
	b_error = is_buffer[B] ? 0 : B->bi_status;
	b_edev = io_device[B]->bd_dev;
};

/* dev_t has 20 bits for the minor number. */
translator devinfo_t < struct bio *B > {
	dev_major = io_device[B]->bd_dev >> 20;
	dev_minor = io_device[B]->bd_dev & 0xfffff;
	dev_instance = io_device[B]->bd_partno;
	dev_name = stringof(io_device[B]->bd_disk->disk_name);
	dev_statname = stringof(io_device[B]->bd_device.kobj.name);
};

/*
 * The dentry of the file that the request's page belongs to, if the page is in the page cache and the file has a name.
 * The two lowest bits of a mapping tell that the page is something else. A part of a split bio has the whole's vectors.
 */
inline struct bio_vec *bio_vector[struct bio *B] =
	is_buffer[B] || B->bi_iter.bi_size == 0 || B->bi_io_vec == NULL ? (struct bio_vec *)NULL : B->bi_io_vec + B->bi_iter.bi_idx;
inline struct address_space *page_mapping[struct page *P] =
	(uintptr_t)P->mapping & 3 ? (struct address_space *)NULL : P->mapping;
inline struct address_space *vector_mapping[struct bio_vec *V] =
	V == NULL ? (struct address_space *)NULL : page_mapping[V->bv_page];
inline struct address_space *bio_mapping[struct bio *B] = vector_mapping[bio_vector[B]];
inline struct inode *mapping_inode[struct address_space *M] = M == NULL ? (struct inode *)NULL : M->host;
inline uintptr_t inode_alias[struct inode *I] = I == NULL ? 0 : (uintptr_t)I->i_dentry.first;
inline string alias_name[uintptr_t A] =
	A == 0 ? "<none>" : stringof(((struct dentry *)(A - offsetof(struct dentry, d_u)))->d_name.name);

inline string alias_path[uintptr_t A] =
	A == 0 ? "<none>" : pathof(2, (void *)(A - offsetof(struct dentry, d_u)));
inline string alias_directory[uintptr_t A] =
	A == 0 ? "<none>" : pathof(34, (void *)(A - offsetof(struct dentry, d_u)));
inline string inode_kind[struct inode *I] = I == NULL ? "<none>" : stringof(I->i_sb->s_type->name);

/* The file's path in its file system: a bio does not know mounts. */
translator fileinfo_t < struct bio *B > {
	fi_name = alias_name[inode_alias[mapping_inode[bio_mapping[B]]]];
	fi_dirname = alias_directory[inode_alias[mapping_inode[bio_mapping[B]]]];
	fi_pathname = alias_path[inode_alias[mapping_inode[bio_mapping[B]]]];
	fi_fs = inode_kind[mapping_inode[bio_mapping[B]]];
};

/* Excludes a driver's own commands, REQ_OP_DRV_IN and REQ_OP_DRV_OUT, which were never queued. */
inline int is_queued[uintptr_t A] =
	(((struct bio *)A)->bi_opf & 0xff) != 34 && (((struct bio *)A)->bi_opf & 0xff) != 35;

provider io {
	probe start(struct bio *B, struct bio *D, struct bio *F) : (bufinfo_t *B, devinfo_t *D, fileinfo_t *F);
	probe done(struct bio *B, struct bio *D, struct bio *F) : (bufinfo_t *B, devinfo_t *D, fileinfo_t *F);
	probe wait__start(struct bio *B, struct bio *D, struct bio *F) : (bufinfo_t *B, devinfo_t *D, fileinfo_t *F);
	probe wait__done(struct bio *B, struct bio *D, struct bio *F) : (bufinfo_t *B, devinfo_t *D, fileinfo_t *F);
};
