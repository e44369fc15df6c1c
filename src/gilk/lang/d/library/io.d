/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DTrace's types of descriptors, for the process of the thread in which the probe fires: see docs/d/variables.md.
 */
#pragma D depends_on library mounts.d
#pragma D depends_on library file_types.d

/* A file on none of the mounts that the process sees has a file system all the same. */
inline string file_kind[string P] =
	substr(P, 0, 6) == "pipe:[" ? "pipefs" :
	substr(P, 0, 8) == "socket:[" ? "sockfs" :
	substr(P, 0, 11) == "anon_inode:" ? "anon_inodefs" : "<unknown>";

/* Translates descriptor N, whose file is on mount M; both are computed once, and given. */
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
