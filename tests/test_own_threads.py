# SPDX-License-Identifier: LGPL-2.1-or-later
"""A limit on addresses: threads for which it leaves no room are not started, so that nothing waits for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gilk import own_threads

START = """
import resource, threading
from gilk import own_threads

def limit(spare):
    pages = int(open("/proc/self/statm").read().split()[0])
    soft = pages * resource.getpagesize() + (spare << 20)
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))

limit({spare})
"""


def within(spare: int, then: str) -> str:
    """Run Python with so many MiB of addresses left; return its standard output."""
    words = [sys.executable, "-c", START.format(spare=spare) + then]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("spare", [0, 1, 4, 9, 16, 64, 75, 100, 140])
def test_a_thread_without_room_is_an_error_at_once(spare: int) -> None:
    then = """
try:
    own_threads.start(threading.Thread(target=print))
except MemoryError as error:
    print(error)
"""
    assert within(spare, then) == "no addresses are left for a thread\n"


def test_threads_start_where_there_is_room_for_them() -> None:
    then = """
print(own_threads.room_for(2), own_threads.room_for(9) < 9)
for _ in range(2):
    own_threads.start(threading.Thread(target=lambda: print("begun")))
"""
    assert sorted(within(600, then).split()) == ["2", "True", "begun", "begun"]


@pytest.mark.parametrize(("spare", "begins"), [(500, False), (2000, True)])
def test_a_watcher_leaves_a_gigabyte_for_the_rest(spare: int, begins: bool) -> None:
    assert within(spare, "print(own_threads.watcher(lambda: None) is not None)") == f"{begins}\n"


def test_nothing_bounds_the_number_of_threads_without_a_limit() -> None:
    assert own_threads.room_for(1 << 20) == 1 << 20
