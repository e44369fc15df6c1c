/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What DTrace tells of descriptors, of the thread that the probe fires in: see docs/d/variables.md.
 */
#pragma D depends_on library mounts.d

typedef struct fileinfo {
	string fi_name;
	string fi_dirname;
	string fi_pathname;
	long fi_offset;
	string fi_fs;
	string fi_mount;
	int fi_oflags;
} fileinfo_t;

inline int O_ACCMODE = 0003;
inline int O_RDONLY = 0;
inline int O_WRONLY = 01;
inline int O_RDWR = 02;
inline int O_CREAT = 0100;
inline int O_EXCL = 0200;
inline int O_NOCTTY = 0400;
inline int O_TRUNC = 01000;
inline int O_APPEND = 02000;
inline int O_NONBLOCK = 04000;
inline int O_NDELAY = 04000;
inline int O_DSYNC = 010000;
inline int O_DIRECT = 040000;
inline int O_LARGEFILE = 0100000;
inline int O_DIRECTORY = 0200000;
inline int O_NOFOLLOW = 0400000;
inline int O_NOATIME = 01000000;
inline int O_CLOEXEC = 02000000;
inline int O_SYNC = 04010000;
inline int O_RSYNC = 04010000;
inline int O_PATH = 010000000;

/* What is on none of the mounts that the process sees has a file system all the same. */
inline string file_kind[string P] =
	substr(P, 0, 6) == "pipe:[" ? "pipefs" :
	substr(P, 0, 8) == "socket:[" ? "sockfs" :
	substr(P, 0, 11) == "anon_inode:" ? "anon_inodefs" : "<unknown>";

/* Of descriptor N, which is on mount M: what is given is asked for once. */
inline string file_system[int N, int M] =
	M < 0 ? "<none>" : mount_is_known[M] ? mount_kind[M] : file_kind[fdpath(N)];
inline string file_mount[int M] = M < 0 ? "<none>" : mount_point[M];

translator fileinfo_t < int N > {
	fi_name = basename(fdpath(N));
	fi_dirname = fdmount(N) < 0 ? "<none>" : dirname(fdpath(N));
	fi_pathname = fdpath(N);
	fi_offset = fdoffset(N);
	fi_fs = file_system[N, fdmount(N)];
	fi_mount = file_mount[fdmount(N)];
	fi_oflags = fdflags(N);
};

inline fileinfo_t fds[int N] = xlate <fileinfo_t> (N);
#pragma D attributes Stable/Stable/Common fds
#pragma D binding "1.1" fds
