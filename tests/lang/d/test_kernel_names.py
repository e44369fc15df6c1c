# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names of kernel addresses agree with /proc/kallsyms; users without the right see zeroes."""

from __future__ import annotations

import random
import re
from pathlib import Path

from gilk.engines.dtrace.kernel_names import KernelNames
from gilk.engines.dtrace.symbols import Named


def test_names_are_those_of_kallsyms() -> None:
    names = KernelNames()
    lines = re.findall(r"^(\w+) [tT] (\S+)$", Path("/proc/kallsyms").read_text(), re.M)
    known: dict[int, set[str]] = {}
    for address, name in lines:
        known.setdefault(int(address, 16), set()).add(name)
    for address in random.Random(1).sample(sorted(known), min(len(known), 50)):
        found = names.name(address)
        if address:
            assert (found.module, found.offset) == ("vmlinux", 0)
            assert found.function in known[address]
        else:
            assert found == Named(0)


def test_what_is_none_of_the_kernels_has_no_name() -> None:
    for address in (0, 4096, (1 << 47) - 1, (1 << 64) - 1):
        assert KernelNames().name(address) == Named(address)
