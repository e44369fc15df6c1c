# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``io``: requests to block devices. Types: library/kernel/io.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_BIO = "{0}; {0}; {0}; 0; 0; 0; 0"
#: A buffer of xfs, with the arguments that library/kernel/io.d names. Its flags are gone when it has been waited for.
_BUFFER = "{0}; {0}; {0}; {1}; args[0]->b_length; args[0]->b_maps->bm_bn; args[0]->b_target->bt_bdev"
_XFS = "(uint64_t)args[0] | 1"
_ROWS = table.rows(f"""
    start      | t:block_bio_queue     |                        | {_BIO.format("args[0]")}
    done       | b:block_rq_complete   | is_queued[arg0]        | {_BIO.format("(struct bio *)arg0")}
    done       | t:block_bio_complete  |                        | {_BIO.format("args[1]")}
    wait-start | e:submit_bio_wait     |                        | {_BIO.format("args[0]")}
    wait-done  | e:submit_bio_wait     | (self->io_waits = args[0], 0) |
    wait-done  | r:submit_bio_wait     | self->io_waits != NULL | {_BIO.format("self->io_waits")}
    wait-start | t:xfs_buf_iowait      |                        | {_BUFFER.format(_XFS, "args[0]->b_flags")}
    wait-done  | t:xfs_buf_iowait      | (self->io_flags = args[0]->b_flags, 0) |
    wait-done  | t:xfs_buf_iowait_done |                        | {_BUFFER.format(_XFS, "self->io_flags")}
""")
NOT_SEEN: dict[str, str] = {}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("io", _ROWS, target, description)
