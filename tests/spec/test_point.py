# SPDX-License-Identifier: LGPL-2.1-or-later
"""``[IMAGE:]FUNCTION[:WHERE]`` is read back as it was printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.engines.follow.scope import glob
from gilk.errors import UsageError
from gilk.spec import functions, point
from gilk.spec.functions import FunctionPattern
from gilk.spec.point import Spec

PART = st.text("abz_*?[]~ .+-/<>=@0", min_size=1, max_size=8)
IMAGES = st.one_of(st.just(""), PART)
FUNCTIONS = st.lists(PART, min_size=1, max_size=3).map("::".join)
WHERE = st.one_of(
    st.sampled_from(["entry", "return", "blocks", "blocks-post"]),
    st.builds("@{}:{}".format, st.integers(0, 10**6), st.sampled_from(["pre", "post"])),
    st.builds("+{}".format, st.integers(0, 10**6)),
    st.builds("+{:#x}".format, st.integers(0, 10**6)),
)


@given(st.builds(Spec, IMAGES, FUNCTIONS, WHERE))
def test_a_printed_point_is_parsed_back(spec: Spec) -> None:
    assert point.parse(str(spec)) == spec


@given(st.builds(FunctionPattern, IMAGES, FUNCTIONS))
def test_a_printed_function_pattern_is_parsed_back(named: FunctionPattern) -> None:
    assert functions.parse(str(named)) == named


@given(PART)
def test_an_image_alone_means_all_its_functions(image: str) -> None:
    assert functions.parse(f"{image}:") == glob(f"{image}:") == FunctionPattern(image, "*")


@given(IMAGES, FUNCTIONS)
def test_a_scope_is_parsed_like_functions(image: str, function: str) -> None:
    text = str(FunctionPattern(image, function))
    assert glob(text) == FunctionPattern(image or "*", function)


@given(st.text("ab:@+*", max_size=8))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (point.parse, functions.parse, glob):
        try:
            found = parse(text)
        except UsageError as error:
            assert error.slug in ("bad-point", "bad-scope")
            assert repr(text) in error.message
        else:
            assert found.function


def test_the_last_single_colon_ends_an_image() -> None:
    assert functions.parse("a:b:f") == FunctionPattern("a:b", "f")
    assert functions.parse("lib:ns::f") == FunctionPattern("lib", "ns::f")
    assert functions.parse("ns::f") == FunctionPattern("", "ns::f")
    assert point.parse("lib:ns::f:@3:pre") == Spec("lib", "ns::f", "@3:pre")


@pytest.mark.parametrize("text", ["", ":", ":f", ":::", "a::", ":::f", "f:", "f", "f:where", ":entry", "f::entry"])
def test_malformed_points_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        point.parse(text)
    assert caught.value.slug == "bad-point"


def test_the_place_of_a_point_can_be_removed() -> None:
    assert point.without_where("libc:f*:@3:pre") == "libc:f*"
    assert point.without_where("libc:f*") is None
    assert point.every_entry("libc:f*") == Spec("libc", "f*", "entry")
