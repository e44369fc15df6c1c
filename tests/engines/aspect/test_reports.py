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
def test_reports_of_random_formats_and_records_are_bounded(text: str, content: bytes) -> None:
    assert len(printed(text, content)) < 100_000


def test_printf_widths_are_bounded() -> None:
    content = struct.pack("<qq", 1 << 40, 7)
    assert len(printed("%*d", content)) == 1024
    assert len(printed("%999999999d", content)) == 1024


def test_unknown_conversions_are_printed_as_they_stand() -> None:
    assert printed("100%% %n %d", struct.pack("<q", 5)) == "100% %n 5"
