# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``vminfo``: counters of memory activity; arg0 is the increment, in pages for counters of pages.

Bit 0 of bi_opf is set if a request writes. 4 is VM_FAULT_MAJOR.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_READS, _WRITES = (f"args[0]->bi_iter.bi_size != 0 && (args[0]->bi_opf & 1) == {n}" for n in (0, 1))
_PAGES = "(args[0]->bi_iter.bi_size + 4095) >> 12"
_ROWS = table.rows(f"""
    as_fault      | t:page_fault_user                    | | 1
    kernel_asflt  | t:page_fault_kernel                  | | 1
    maj_fault     | r:handle_mm_fault                    | (arg1 & 4) != 0 | 1
    cow_fault     | e:wp_page_copy                       | | 1
    pgin          | t:block_bio_queue                    | {_READS} | 1
    pgout         | t:block_bio_queue                    | {_WRITES} | 1
    pgpgin        | t:block_bio_queue                    | {_READS} | {_PAGES}
    pgpgout       | t:block_bio_queue                    | {_WRITES} | {_PAGES}
    anonpgin      | e:swap_readpage                      | | 1
    anonpgout     | e:__swap_writepage                   | | 1
    pgswapin      | e:swap_readpage                      | | 1
    pgswapout     | e:__swap_writepage                   | | 1
    scan          | t:mm_vmscan_lru_isolate              | | arg3
    pgrrun        | t:mm_vmscan_kswapd_wake              | | 1
    pgrrun        | t:mm_vmscan_direct_reclaim_begin     | | 1
""")
NOT_SEEN = {
    "zfod": "the kernel has no place of its own where it makes a page of zeroes: it is inlined",
    "prot_fault": "a fault is told apart only where it is handled",
    **dict.fromkeys(
        ("anonfree", "dfree", "execfree", "execpgin", "execpgout", "fsfree", "fspgin", "fspgout", "hat_fault", "pgfrec",
         "pgrec", "rev", "softlock", "swapin", "swapout"), "Linux has no such counter",
    ),
}  # fmt: skip


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("vminfo", _ROWS, target, description)
