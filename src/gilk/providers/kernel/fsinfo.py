# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``fsinfo``: requests to file systems, where the kernel calls them. Types: library/kernel/fsinfo.d.

A request that several functions serve has a line for each: the function of one line never calls that of another line of
the same name.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_ROWS = table.rows("""
    read    | e:vfs_read        | | args[0]; args[2]
    write   | e:vfs_write       | | args[0]; args[2]
    open    | e:do_dentry_open  | | args[0]; args[0]->f_flags
    close   | e:filp_close      | | args[0]; 0
    fsync   | e:vfs_fsync_range | | args[0]; args[3]
    readdir | e:iterate_dir     | | args[0]; 0
    mkdir   | e:vfs_mkdir       | | args[2]; args[3]
    rmdir   | e:vfs_rmdir       | | args[2]; 0
    unlink  | e:vfs_unlink      | | args[2]; 0
    symlink | e:vfs_symlink     | | args[2]; 0
    link    | e:vfs_link        | | args[0]; 0
    rename  | e:vfs_rename      | | args[0]->old_dentry; 0
""")
NOT_SEEN = {
    "create": "each file system makes files by a function of its own: fbt::ext4_create:entry and its like",
    "lookup": "each file system looks names up by a function of its own: fbt::ext4_lookup:entry and its like",
    **dict.fromkeys(
        ("access", "addmap", "cmp", "delmap", "dispose", "dump", "dumpctl", "fid", "frlock", "getattr", "getpage",
         "getsecattr", "inactive", "ioctl", "map", "pageio", "pathconf", "poll", "putpage", "readlink", "realvp",
         "rwlock", "rwunlock", "seek", "setattr", "setfl", "setsecattr", "shrlock", "space", "vnevent"),
        "Linux has no one place where all file systems are asked that",
    ),
}  # fmt: skip


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("fsinfo", _ROWS, target, description)
