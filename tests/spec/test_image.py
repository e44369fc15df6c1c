# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of images; the SONAME agrees with readelf's."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gilk.engines.follow.scope import TraceScope
from gilk.engines.scan.kernel import choose
from gilk.engines.scan.subject import subjects
from gilk.errors import UsageError
from gilk.image.elf import File, load
from gilk.session.request import having
from gilk.spec import image, point
from gilk.targets.base import Loaded
from tests.session.test_request import Images

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
STDCXX = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"

NAMED = """
libc                        /lib/libc.so.6
libc                        /lib/libc-2.31.so
libc.so                     /lib/libc.so.6
libc.so                     /lib/libc-2.31.so           libc.so.6
libc.so.6                   /lib/libc.so.6
libc.so.*                   /lib/libc.so.6
lib*                        /lib/libc.so.6
libstdc++                   /lib/libstdc++.so.6.0.30    libstdc++.so.6
libstdc++.so.6              /lib/libstdc++.so.6.0.30    libstdc++.so.6
libstdc++.so.6.0.30         /lib/libstdc++.so.6.0.30    libstdc++.so.6
libreal                     /lib/plugin                 libreal-1.2.so.3
libreal-1.2.so.3            /lib/plugin                 libreal-1.2.so.3
python3                     /usr/bin/python3.11
python3.*                   /usr/bin/python3.11
/usr/lib/*/libc.so.6        /usr/lib/x86_64-linux-gnu/libc.so.6
*/libc.so.6                 /usr/lib/x86_64-linux-gnu/libc.so.6
/usr/lib/libc.so.6          /proc/4711/root/usr/lib/libc.so.6
*                           /opt/any.thing
"""
OTHERS = """
libc                        /lib/libcrypto.so.3
libc                        /lib/libcrypto.so.3         libcrypto.so.3
libc.so.5                   /lib/libc.so.6              libc.so.6
libc.so                     /lib/libc-2.31.so
libc.so                     /lib/libc.socket
lib                         /usr/lib/bash
*lib*                       /usr/lib/bash
/lib/libc.so.6              /usr/lib/libc.so.6
a.out                       /usr/bin/true
-                           /usr/bin/true
"""


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


@pytest.mark.parametrize("row", rows(NAMED), ids=" ".join)
def test_patterns_that_match_an_image(row: list[str]) -> None:
    assert image.matches(*row)


@pytest.mark.parametrize("row", rows(OTHERS), ids=" ".join)
def test_patterns_that_do_not_match_an_image(row: list[str]) -> None:
    assert not image.matches(*row)


def test_the_main_program_has_the_names_that_dtrace_gives_it() -> None:
    assert all(image.matches(name, "/usr/bin/true", main=True) for name in ("a.out", "-", "true"))
    assert not image.matches("false", "/usr/bin/true", main=True)


@given(st.text("abc.-/_0123456789", min_size=1), st.text("abc.so-6", max_size=9))
def test_every_short_name_of_an_image_matches_it(path: str, soname: str) -> None:
    names = list(image.names(path, soname))
    assert all(names)
    assert all(image.matches(name, path, soname) for name in names)


def test_all_commands_mean_the_same_images() -> None:
    """Points, scopes, D and scans match a pattern with the same images."""
    loaded = Loaded(Path(STDCXX), 0, 0, 1, False, "libstdc++.so.6")
    process = Images((LIBRARIES / "libc.so.6",))
    for pattern, expected in (("libstdc++.so.6", True), ("libstdc++", True), ("libstdc*", True), ("libsupc++", False)):
        assert loaded.is_meant(pattern) is expected
        assert TraceScope.parse([f"{pattern}:"]).takes_image(loaded) is expected
    assert [found.path.name for found, _ in having(process, point.parse("libc:malloc:entry"))] == ["libc.so.6"]
    assert choose("nf_*", ["ext4", "nf_nat", "nf_tables"]) == {"nf_nat", "nf_tables"}
    with pytest.raises(UsageError):
        choose("libc", ["ext4"])


@pytest.mark.parametrize("name", ["libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"])
def test_the_soname_is_the_one_that_readelf_shows(name: str) -> None:
    path = (LIBRARIES / name).resolve()
    if not path.exists():
        path = (Path("/lib/x86_64-linux-gnu") / name).resolve()
    listed = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(SONAME\).*\[(.+)\]", listed)
    assert found
    file = File(path)
    file.close()
    assert file.soname == load(path).soname == found[1]


def test_a_program_has_no_soname() -> None:
    file = File(Path("/bin/true").resolve())
    file.close()
    assert file.soname == ""


def test_a_scanned_file_is_found_by_its_soname(tmp_path: Path) -> None:
    copy = tmp_path / "copied"
    copy.write_bytes((LIBRARIES / "libm.so.6").resolve().read_bytes())
    (subject,), function = subjects(str(copy), "libm.so.6:sin*")
    assert (subject.path, function) == (copy, "sin*")
    with pytest.raises(UsageError) as caught:
        subjects(str(copy), "libc.so.6:sin*")
    assert caught.value.slug == "no-such-image"
