# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``io``: requests to block devices. Types: library/kernel/io.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_ROWS = table.rows("""
    start      | t:block_bio_queue    |                 | args[0]; args[0]; args[0]
    done       | b:block_rq_complete  | is_queued[arg0] | (struct bio *)arg0; (struct bio *)arg0; (struct bio *)arg0
    done       | t:block_bio_complete |                 | args[1]; args[1]; args[1]
    wait-start | e:submit_bio_wait    |                 | args[0]; args[0]; args[0]
    wait-done  | e:submit_bio_wait    | (self->io_waits = args[0], 0) |
    wait-done  | r:submit_bio_wait    | self->io_waits != NULL | self->io_waits; self->io_waits; self->io_waits
""")
NOT_SEEN: dict[str, str] = {}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("io", _ROWS, target, description)
