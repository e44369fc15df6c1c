# SPDX-License-Identifier: LGPL-2.1-or-later
"""Messages come whole out of a stream, however its bytes are cut; a message that is too large is refused before it
has arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.targets.framing import HEADER, FrameReader, MessageKind, TooLarge, framed

kinds = st.sampled_from(list(MessageKind))
messages = st.lists(st.tuples(kinds, st.integers(0, (1 << 32) - 1), st.binary(max_size=40)), max_size=5)


@given(messages, st.lists(st.integers(1, 30), min_size=1))
def test_messages_are_whole_however_they_are_cut(sent: list[tuple[MessageKind, int, bytes]], sizes: list[int]) -> None:
    stream = b"".join(framed(kind, body, tag) for kind, tag, body in sent)
    frames, found, at = FrameReader(40), [], 0
    while at < len(stream):
        size = sizes[at % len(sizes)]
        frames.add(stream[at : at + size])
        at += size
        while (message := frames.next()) is not None:
            found.append(message)
    assert found == sent


def test_the_bytes_of_a_header() -> None:
    """The expected bytes are written by hand, a length, a tag and a kind, because a relay of another build must read
    the same."""
    assert framed(MessageKind.SPAWN, b"ab", 0x01020304) == b"\x02\0\0\0\x04\x03\x02\x01\x07ab"
    assert len(set(MessageKind)) == len(MessageKind.__members__)


def test_a_message_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    frames = FrameReader(8)
    frames.add(HEADER.pack(8, 0, MessageKind.PART))
    assert frames.next() is None
    frames.add(bytes(8) + HEADER.pack(9, 0, MessageKind.PART))
    assert frames.next() == (MessageKind.PART, 0, bytes(8))
    with pytest.raises(TooLarge) as refused:
        frames.next()
    assert refused.value.size == 9
