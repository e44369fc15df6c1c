# SPDX-License-Identifier: LGPL-2.1-or-later
"""``python tests/guard.py -m tests.fuzz FIRST ROUNDS`` runs rounds with these seeds, and prints a line for each that
failed."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections import Counter

from tests.fuzz.rounds import one_round

_SLOW = 20.0  # seconds


def main(first: int, number: int) -> int:
    slugs: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + number):
        began = time.monotonic()
        told = one_round(seed)
        seconds = time.monotonic() - began
        if seconds > _SLOW:
            print(f"\n{seed} {told.kind} {told.subject}: {seconds:.0f} s")
            print(*(shlex.join(words[2:]) for words in told.commands), sep="\n  ", flush=True)
        slugs.update(told.slugs)
        if told.wrong:
            wrong += 1
            print(f"\n{seed} {told.kind} {told.subject}:", *told.wrong, sep="\n  ")
            print(*(shlex.join(words[2:]) for words in told.commands), told.said, sep="\n  ", flush=True)
    print(json.dumps({"rounds": number, "wrong": wrong, "errors": slugs.most_common()}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
