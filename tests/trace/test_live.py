# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reading memory while another process writes to it."""

from __future__ import annotations

import mmap
import os
import signal

import numpy as np
import pytest

from gilk.trace.live import which_are_set

WORDS, LOOKS = 512, 30_000


def test_nonzero_words_are_found_while_others_change() -> None:
    shared = mmap.mmap(-1, 8 * WORDS)
    words = np.frombuffer(shared, "<u8")
    words[7] = 1
    child = os.fork()
    if not child:
        while True:
            words[100:] ^= 1
    try:
        for _ in range(LOOKS):
            found = which_are_set(words)
            assert 7 in found
            assert set(found) <= {7, *range(100, WORDS)}
        with pytest.raises(RuntimeError):  # what it is for: numpy itself does not
            for _ in range(100 * LOOKS):
                np.flatnonzero(words)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
