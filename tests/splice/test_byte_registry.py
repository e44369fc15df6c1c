# SPDX-License-Identifier: LGPL-2.1-or-later
"""Padding, and the states of an image's bytes."""

from __future__ import annotations

import dataclasses

import pytest

from gilk.image.model import Image, LoadSegment
from gilk.splice.byte_registry import Registry, padding_end
from tests.splice.holds import analysed

AT = 0x1000


def image(code: str) -> Image:
    data = bytes.fromhex(code)
    segment = LoadSegment(AT, len(data), 0, data, True, False)
    return dataclasses.replace(analysed("/bin/bash").image, segments=(segment,))


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("90 90 90 c3", 3),
        ("cc cc cc cc c3", 4),
        ("0f1f4000 66900f1f00 c3", 9),
        ("c3", 0),
        ("90 90 55 c3", 0),  # code that begins with nops: the next known code is not where they end
        ("0f1f40", 0),  # a nop cut short
    ],
)
def test_padding_is_nops_up_to_the_next_code(code: str, end: int) -> None:
    limit = AT + len(bytes.fromhex(code)) - code.endswith("c3")
    assert padding_end(image(code), AT, limit) == AT + end


def test_bytes_are_free_until_claimed_or_pinned() -> None:
    registry = Registry(image("90" * 16))
    assert registry.free(AT, AT + 16)
    registry.claim(AT + 2, AT + 7)
    registry.pin(AT + 9, AT + 10)
    registry.pin(AT + 9, AT + 10)
    assert [registry.free(AT + i, AT + i + 1) for i in range(10)] == [True] * 2 + [False] * 5 + [True] * 2 + [False]
    registry.unpin(AT + 9, AT + 10)
    assert not registry.free(AT + 9, AT + 10)  # another pun still shares it
    registry.unpin(AT + 9, AT + 10)
    assert registry.free(AT + 7, AT + 16)


def test_bytes_outside_of_the_image_are_never_free() -> None:
    registry = Registry(image("90" * 16))
    assert not registry.free(AT - 1, AT + 4)
    assert not registry.free(AT + 12, AT + 17)
    assert registry.read(AT + 14, 4) == b""


def test_release_restores_the_bytes_and_keeps_pins() -> None:
    registry = Registry(image("9091929394959697"))
    registry.claim(AT, AT + 5)
    assert registry.write(AT, b"\xe9\1\2\3\4") == bytes.fromhex("9091929394")
    registry.pin(AT + 3, AT + 5)
    assert registry.read(AT + 3, 4) == b"\3\4\x95\x96"
    registry.release(AT, AT + 5)
    assert registry.read(AT, 8) == bytes.fromhex("9091929394959697")
    assert registry.free(AT, AT + 3)
    assert not registry.free(AT + 3, AT + 4)
