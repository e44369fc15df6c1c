# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files of aspects that are valid, and are refused before anything changes."""

from __future__ import annotations

import pytest

from gilk.engines.aspect.possible import check_possible
from gilk.errors import UsageError
from gilk.lang.aspect.code.meeting import numbered
from gilk.lang.aspect.lower import automata
from tests.lang.aspect.files import checked

#: Places where C of a file may write a sample, and the line of each.
LOGGING = {
    "call(int f(int n)) then { report(\"\"); ilk_log_integer_sample(n, 1); };": 1,
    "call(int f(int n))\n && if (ilk_log_pair_sample(n, n, 2), 1);": 2,
    "call(int f(int n)) && bind(int m, (ilk_log_string_sample(\"\", 3), n));": 1,
    "var(int k = ilk_log_registers_sample(0, 4)) seq(call(int f(int n)); call(int g(int m)));": 1,
    "seq(call(int f(int n)); call(int g(int m)))\nuntil call(int h(int n)) && if (gilk_log_registers_in(0), 1);": 2,
    "%{ static void log(long n) { ilk_log_integer_sample(n, 1); } %} call(int f(int n)) then log(n);": 1,
}  # fmt: skip


@pytest.mark.parametrize("text", LOGGING)
def test_samples_of_instruments_are_refused_with_what_serves_instead(text: str) -> None:
    file = checked(text).file
    assert file is not None
    with pytest.raises(UsageError, match=r"ilk_log_\w+ writes a sample, and a weaving keeps none") as raised:
        check_possible(file, numbered(file, automata(file)))
    assert raised.value.slug == "cannot-weave" and f"line {LOGGING[text]}:" in raised.value.message
    assert "report" in raised.value.hint
