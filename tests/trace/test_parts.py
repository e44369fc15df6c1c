# SPDX-License-Identifier: LGPL-2.1-or-later
"""ClientParts: the shares of clients in the memory whose blocks threads claim."""

from __future__ import annotations

import pytest

from gilk.errors import TargetError
from gilk.trace.layout import Geometry, Shared
from gilk.trace.parts import OF_TRACE, ClientParts


def test_threads_with_blocks_look_again_when_a_client_comes() -> None:
    geometry = Geometry.plan(1, set(), threads=4)
    memory = bytearray(geometry.size)
    geometry.initialise(memoryview(memory))
    shared, parts = Shared(geometry, memory), ClientParts(geometry, memory)
    shared.control["next"] = 3
    for change in (lambda: parts.add(0x1000), parts.renew, lambda: parts.remove(1)):
        before = int(shared.control["generation"])
        shared.heads["owner"] = 7
        change()
        assert shared.control["generation"] == before + 1
        assert shared.heads["owner"].tolist() == [0, 0, 0, 7]


def test_a_clients_number_is_reused_once_it_is_free() -> None:
    geometry = Geometry.plan(1, set(), threads=1)
    parts = ClientParts(geometry, bytearray(geometry.size))
    assert [parts.add(4096 * n) for n in range(1, OF_TRACE)] == list(range(1, OF_TRACE))
    assert parts.add(4096 * OF_TRACE, OF_TRACE) == OF_TRACE  # which no other client is given
    with pytest.raises(TargetError) as refused:
        parts.add(4096)
    assert refused.value.slug == "too-many-sessions"
    parts.remove(5)
    assert parts.add(4096) == 5
