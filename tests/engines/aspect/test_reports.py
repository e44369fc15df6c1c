# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reports of advice as the weaver prints them: whatever a process has written there, the report is text of bounded
length."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from gilk.engines.aspect.reports import printed

_FORMATS = st.text(alphabet="%0123456789.*-+# hlzjtdiouxXcspaAeEfFgGnyS", max_size=40)


@given(_FORMATS, st.binary(max_size=232))
def test_no_format_and_no_record_is_too_much(text: str, content: bytes) -> None:
    assert len(printed(text, content)) < 100_000


def test_widths_that_a_record_brings_are_bounded() -> None:
    content = struct.pack("<qq", 1 << 40, 7)
    assert len(printed("%*d", content)) == 1024
    assert len(printed("%999999999d", content)) == 1024


def test_conversions_that_there_are_not_are_printed_as_they_stand() -> None:
    assert printed("100%% %n %d", struct.pack("<q", 5)) == "100% %n 5"
