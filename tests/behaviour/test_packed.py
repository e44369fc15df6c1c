# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that UPX has packed: they unpack themselves into memory of no file, where their own code is refused by name;
functions of their libraries are counted once they run, and they print the same as undisturbed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import gilk
from gilk.errors import GilkError
from tests.behaviour.harness import differences, leftovers, plain, run, run_gilk
from tests.behaviour.test_kinds import SOURCES, STATUS, attending, poke
from tests.programs.build import compile_to

pytestmark = pytest.mark.stress
#: kind: the options to build it with.
KINDS = {"nopie": ("-no-pie", "-fno-pie"), "pie": ("-pie", "-fPIE"), "static": ("-static",)}


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of packed programs that do the same, by kind."""
    packer, place = shutil.which("upx"), tmp_path_factory.mktemp("packed")
    if packer is None:
        pytest.skip("upx is not on the PATH")
    found = {}
    for kind, flags in KINDS.items():
        program = compile_to(place / kind, [SOURCES / "steady.c"], ("-O2", *flags))
        subprocess.run([packer, "-q", "-o", place / f"packed-{kind}", program], check=True, capture_output=True)
        found[kind] = place / f"packed-{kind}"
        assert plain([found[kind]]).visible == plain([program]).visible
    return found


@pytest.mark.parametrize("kind", ["nopie", "pie"])
def test_functions_of_the_libraries_of_a_packed_program_are_counted(packed: dict[str, Path], kind: str) -> None:
    with attending(packed[kind]) as process:
        undisturbed = [poke(process) for _ in range(6)]
    with attending(packed[kind]) as process:
        said = []
        for points in ("*:*:entry", "libc.so.6:*printf*:blocks", "libc.so.6:printf:entry"):
            with gilk.attach(process.pid) as target, target.session() as session:
                probes = session.insert(points, gilk.count)
                said.append(poke(process))
                counts = session.counts()
                assert counts["libc.so.6:printf:@0:pre" if "blocks" in points else "libc.so.6:printf:entry"] == 1
                assert sum(probe.tactic is None for probe in probes) <= len(probes) // 1000
            assert session.restored
            said.append(poke(process))
            assert (differences(process.pid), leftovers(process.pid)) == ([], [])
        assert said == undisturbed


@pytest.mark.parametrize(
    ("kind", "slug"), [("nopie", "no-such-function"), ("pie", "no-such-function"), ("static", "no-such-process")]
)
def test_the_own_code_of_a_running_packed_program_is_refused(packed: dict[str, Path], kind: str, slug: str) -> None:
    with attending(packed[kind]) as process:
        with pytest.raises(GilkError) as refused, gilk.attach(process.pid) as target, target.session() as session:
            session.insert("*:work:entry", gilk.count)
        assert refused.value.slug == slug
        assert leftovers(process.pid) == []
        poke(process)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_packed_program_that_is_launched_is_refused_or_not_disturbed(packed: dict[str, Path], kind: str) -> None:
    program = packed[kind]
    expected = plain([program])
    refused = run_gilk("run", "-i", f"{program.name}:work:entry=count", "--", program)
    assert (refused.returncode != STATUS, "(no-such-function)" in refused.stderr) == (True, True)
    refused = run_gilk("trace", "-o", program.with_suffix(".parquet"), "--", program)
    assert (refused.returncode != STATUS, "(nothing-to-follow)" in refused.stderr) == (True, True)
    waited = run(["libc.so.6:printf:entry=count"], [program], late=True)
    assert (waited.status, waited.stdout) == (expected.status, expected.stdout)
    assert (waited.report["counts"], waited.report["partial"]) == ({}, True)
    assert any("nothing has come" in note for note in waited.report["notes"])
