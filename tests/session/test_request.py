# SPDX-License-Identifier: LGPL-2.1-or-later
"""The language of requests: POINTS=INSTRUMENT."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gilk.analysis.analysis import Analysis
from gilk.errors import UsageError
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.session.places import functions
from gilk.session.request import Builtin, CFunction, expand, parse
from gilk.spec.point import Spec
from gilk.targets.base import Loaded


@pytest.mark.parametrize(
    ("text", "spec", "instrument"),
    [
        ("main:entry=count", Spec("", "main", "entry"), Builtin.COUNT),
        ("libc:malloc:return=stamp", Spec("libc", "malloc", "return"), Builtin.STAMP),
        ("lib*.so*:f?o:@12:post=regs", Spec("lib*.so*", "f?o", "@12:post"), Builtin.REGS),
        ("std::vector<int>::at:blocks=args", Spec("", "std::vector<int>::at", "blocks"), Builtin.ARGS),
        ("a.out:ns::f:+0x1c=count", Spec("a.out", "ns::f", "+0x1c"), Builtin.COUNT),
        ("operator==:entry=count", Spec("", "operator==", "entry"), Builtin.COUNT),
        ("main:entry=x/y.c:go", Spec("", "main", "entry"), CFunction(Path("x/y.c"), "go")),
    ],
)
def test_requests_that_are_parsed(text: str, spec: Spec, instrument: object) -> None:
    request = parse(text)
    assert (request.spec, request.instrument) == (spec, instrument)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("main:entry", "bad-instrument"),
        ("main=count", "bad-point"),
        ("main:somewhere=count", "bad-point"),
        (":entry=count", "bad-point"),
        ("main:@x:pre=count", "bad-point"),
        ("main:entry=counts", "bad-instrument"),
        ("main:entry=file.c", "bad-instrument"),
        ("main:entry=file.c:not a name", "bad-instrument"),
        ("", "bad-instrument"),
    ],
)
def test_malformed_requests_are_refused_with_a_hint(text: str, slug: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.slug == slug
    assert caught.value.hint


@dataclass(frozen=True)
class Images:
    """Two of this system's libraries, as a process might have loaded them."""

    files: tuple[Path, ...] = tuple(Path("/lib/x86_64-linux-gnu") / name for name in ("libc.so.6", "libm.so.6"))
    who: str = "process 1"

    def loaded(self) -> tuple[Loaded, ...]:
        return tuple(Loaded(file, 0, 0, 1 << 20, False) for file in self.files)

    def image(self, path: Path) -> Image:
        return load(path)

    def analysis(self, loaded: Loaded) -> Analysis:
        return Analysis(self.image(loaded.path))


@pytest.mark.parametrize(("glob", "name"), [("lib*:malloc", "libc.so.6"), ("lib*.so*:cos", "libm.so.6")])
def test_only_images_that_have_the_function_are_selected(glob: str, name: str) -> None:
    wanted = list(expand(Images(), [parse(f"{glob}:entry=count")]))
    assert [each.loaded.name for each in wanted] == [name]


def test_a_function_in_none_of_several_images_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"none of libc\.so\.6, libm\.so\.6") as caught:
        list(expand(Images(), [parse("lib*:mallox:entry=count")]))
    assert caught.value.slug == "no-such-function"
    assert "malloc" in caught.value.hint


def test_functions_of_no_image_are_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        next(functions(Images(), "malloc", "libnone"))
    assert caught.value.slug == "no-such-image"


def test_a_point_without_an_image_means_none_of_a_kernel() -> None:
    """Aspects look there for the functions of all images then."""
    with pytest.raises(UsageError) as caught:
        next(functions(Images((Path("kernel"),), "the kernel"), "malloc"))
    assert caught.value.slug == "no-such-image"
