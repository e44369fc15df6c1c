# SPDX-License-Identifier: LGPL-2.1-or-later
"""Watch what a running process does, second by second: its busiest functions, as top shows processes.

    python watch.py PID [IMAGE-GLOB [SECONDS]]

All functions of an image are counted. The calls in an interval are the difference of two readings, for which nothing
stops.
"""

from __future__ import annotations

import sys
import time

import gilk

SHOWN = 5


def main(pid: int, image: str = "", seconds: int = 3) -> None:
    with gilk.attach(pid) as target, target.session() as session:
        session.insert([function.entry for function in target.functions("*", image)], gilk.count)
        before = session.counts()
        for second in range(1, seconds + 1):
            time.sleep(1)
            now = session.counts()
            rates = {point: now[point] - before[point] for point in now}
            before = now
            print(f"second {second}: {sum(rates.values())} calls")
            for point, rate in sorted(rates.items(), key=lambda item: -item[1])[:SHOWN]:
                if rate:
                    print(f"{rate:12} {point}")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:4]))
