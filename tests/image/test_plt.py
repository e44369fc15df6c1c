# SPDX-License-Identifier: LGPL-2.1-or-later
"""PLT stubs, against objdump's labels."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gilk.image.elf import load, load_bytes

LABEL = re.compile(r"^([0-9a-f]+) <([^>]+)@plt>:", re.MULTILINE)
IBT = ("-fcf-protection=full", "-Wl,-z,ibtplt")


def stubs(oracle: Callable[..., str], path: Path) -> dict[int, str]:
    """The name of each stub without its version, by the stub's address."""
    text = oracle("objdump", "-d", "-j", ".plt", "-j", ".plt.got", "-j", ".plt.sec", path)
    return {int(address, 16): re.split(r"@|\+0x", name)[0] for address, name in LABEL.findall(text)}


def test_stubs_have_objdumps_names(system_file: Path, oracle: Callable[..., str]) -> None:
    image = load(system_file)
    expected = {address: name for address, name in stubs(oracle, system_file).items() if name != "*ABS*"}
    assert expected
    local = {span.name for span in image.spans if span.ifunc}
    assert {
        address: name for address, name in image.plt.items() if name not in local or address in expected
    } == expected


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-Wl,-z,lazy",), ("-Wl,-z,now",), ("-shared", "-fPIC"), IBT])
def test_stubs_of_small_programs_have_objdumps_names(
    linker: str, flags: tuple[str, ...], build: Callable[..., Path], sources: dict[str, str], oracle: Callable[..., str]
) -> None:
    if linker != "bfd" and flags == IBT:
        pytest.skip(f"{linker} has no such option")
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"no ld.{linker} here")
    path = build(sources["small"], f"-fuse-ld={linker}", *flags)
    image = load(path)
    assert {"rand", "puts", "printf"} <= set(image.plt.values())
    if linker != "gold":  # objdump does not know gold's PLTs
        assert image.plt == stubs(oracle, path)
    assert not any(span.start <= stub < span.end for span in image.spans for stub in image.plt)


@pytest.mark.parametrize("linker", ["bfd", "lld"])
@pytest.mark.parametrize("flags", [("-Wl,-z,lazy",), ("-Wl,-z,now",), ("-no-pie",), ("-Wl,-z,retpolineplt",), IBT])
def test_stubs_are_found_without_section_headers(
    linker: str,
    flags: tuple[str, ...],
    build: Callable[..., Path],
    sources: dict[str, str],
    strip_sections: Callable[[bytes], bytes],
) -> None:
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"no ld.{linker} here")
    path = build(sources["small"], f"-fuse-ld={linker}", *flags)
    whole, bare = load(path), load_bytes(strip_sections(path.read_bytes()), path)
    assert bare.plt == whole.plt
    assert {"rand", "puts", "printf"} <= set(whole.plt.values())
    assert not any(span.start <= stub < span.end for span in bare.spans for stub in bare.plt)


def test_a_stub_of_a_local_ifunc_is_named_after_it(build: Callable[..., Path], sources: dict[str, str]) -> None:
    image = load(build(sources["ifunc"], "-static"))
    assert "chosen" in image.plt.values()
    (span,) = [span for span in image.spans if span.name == "chosen"]
    assert span.ifunc
