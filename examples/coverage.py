# SPDX-License-Identifier: LGPL-2.1-or-later
"""Which basic blocks of a program does a run reach? It works on any binary as it is: nothing is recompiled.

    python coverage.py 'FUNCTION-GLOB' COMMAND [ARGUMENT ...]

Every block of the matching functions of the main program gets a counter. Blocks that cannot be spliced are reported,
and are left out of the sum.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import gilk


def main(glob: str, command: list[str]) -> int:
    with gilk.launch(command) as target:
        with target.session() as session:
            blocks = [block for function in target.functions(glob) for block in function.blocks]
            probes = session.insert([block.pre for block in blocks], gilk.count)
            target.resume()
            while (status := target.wait()) is None:
                time.sleep(0.02)
        counts = session.counts()
    there, reached = Counter[str](), Counter[str]()
    for probe in probes:
        if probe.tactic is not None:
            there[probe.row.function] += 1
            reached[probe.row.function] += counts[probe.row.point] > 0
    for name, number in reached.most_common(10):
        print(f"{number:5} of {there[name]:5} blocks of {name}")
    refused = len(probes) - there.total()
    print(f"{reached.total()} of {there.total()} blocks were reached; {refused} could not be watched")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
