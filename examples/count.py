# SPDX-License-Identifier: LGPL-2.1-or-later
"""Attach to a process, count how often some of its functions are entered, and let it go.

    python count.py PID 'libc.so.6:mem*' [SECONDS]

The process goes on running all the while. The counts are exact, because each thread counts in memory of its own.
"""

from __future__ import annotations

import sys
import time

import gilk


def main(pid: int, functions: str, seconds: float = 2.0) -> None:
    with gilk.attach(pid) as target, target.session() as session:
        probes = session.insert(f"{functions}:entry", gilk.count)
        spliced = [probe for probe in probes if probe.tactic]
        print(f"{len(spliced)} of {len(probes)} functions are counted for {seconds} s")
        time.sleep(seconds)
        counts = session.counts()
    for point, count in sorted(counts.items(), key=lambda item: -item[1]):
        if count:
            print(f"{count:12} {point}")
    print("the code is what it was" if session.restored else "the code is NOT what it was")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:4]))
