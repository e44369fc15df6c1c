# SPDX-License-Identifier: LGPL-2.1-or-later
"""``gilk cfg``: its four forms agree, and hostile names do no harm in any of them."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.harness import run_gilk
from tests.programs.build import build

Environment = dict[str, str]

HOSTILE = b'a"];<b>\\N&\x1b[2J'


def run(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_gilk("cfg", *arguments, env=environment)


@pytest.fixture
def work() -> str:
    return str(build("work"))


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """A program whose main calls something with a name meant for terminals, Graphviz and XML."""
    name = "x" * len(HOSTILE)
    source, program = tmp_path / "x.s", tmp_path / "x"
    source.write_text(
        f".globl main, {name}\n.type main,@function\nmain: test %edi,%edi\nje 1f\ncall {name}\n1: ret\n"
        f".size main,.-main\n.type {name},@function\n{name}: ret\n.size {name},.-{name}\n.section .note.GNU-stack\n"
    )
    subprocess.run(["cc", "-o", program, source], check=True)
    program.write_bytes(program.read_bytes().replace(name.encode(), HOSTILE))
    return str(program)


def graph(environment: Environment, *arguments: str) -> Any:
    return json.loads(run(environment, *arguments, "--json").stdout)


def test_text_numbers_all_points(gilk_on_path: Environment, work: str) -> None:
    text, found = run(gilk_on_path, work, "main").stdout, graph(gilk_on_path, work, "main")
    for block in found["blocks"]:
        for side in ("pre", "post"):
            point = block["points"][side]
            shown = point.get("tactic") or f"refused: {point['refused']}"
            assert re.search(rf"^    @{block['index']}:{side} +{shown}$", text, re.MULTILINE)
        for instruction in block["instructions"]:
            assert f"{instruction['address']:8x}  {bytes.fromhex(instruction['bytes']).hex(' ')} " in text


def test_edges_lead_to_blocks(gilk_on_path: Environment, work: str) -> None:
    found = graph(gilk_on_path, work, "main")
    numbers = {block["index"] for block in found["blocks"]}
    assert found["edges"]
    for edge in found["edges"]:
        assert {edge["from"], edge["to"]} <= numbers
    branches = [block["index"] for block in found["blocks"] if block["how"] == "branch" and not block["outside"]]
    for index in branches:
        kinds = sorted(edge["kind"] for edge in found["edges"] if edge["from"] == index)
        assert kinds == ["not-taken", "taken"]


def test_dot_has_all_blocks_and_edges(gilk_on_path: Environment, work: str) -> None:
    dot, found = run(gilk_on_path, work, "main", "--dot").stdout, graph(gilk_on_path, work, "main")
    assert len(re.findall(r"^  b\d+ \[", dot, re.MULTILINE)) == len(found["blocks"])
    assert len(re.findall(r"^  b\d+ -> b\d+", dot, re.MULTILINE)) == len(found["edges"])


def test_svg_is_a_picture_of_all_blocks(gilk_on_path: Environment, work: str) -> None:
    picture = xml.etree.ElementTree.fromstring(run(gilk_on_path, work, "main", "--svg").stdout)
    found = graph(gilk_on_path, work, "main")
    shown = ["".join(each.itertext()) for each in picture.iter() if each.get("class") == "block"]
    assert len(shown) == len(found["blocks"])
    for block, text in zip(found["blocks"], shown, strict=True):
        assert f"@{block['index']}:pre" in text and all(each["text"] in text for each in block["instructions"])
    lines = [each for each in picture.iter() if each.get("marker-end")]
    assert len(lines) == len(found["edges"])


def test_hostile_names_stay_text(gilk_on_path: Environment, hostile: str) -> None:
    shown = HOSTILE.decode().replace("\x1b", "\\x1b")
    text = run(gilk_on_path, hostile, "main")
    assert text.returncode == 0
    assert "\x1b" not in text.stdout
    assert shown in text.stdout
    picture = xml.etree.ElementTree.fromstring(run(gilk_on_path, hostile, "main", "--svg").stdout)
    assert any(shown in (each.text or "") for each in picture.iter())
    blocks = graph(gilk_on_path, hostile, "main")["blocks"]
    symbols = [instruction["symbol"] for block in blocks for instruction in block["instructions"]]
    assert HOSTILE.decode() in symbols


def test_two_output_forms_at_once_are_refused(gilk_on_path: Environment, work: str) -> None:
    done = run(gilk_on_path, work, "main", "--dot", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["slug"] == "usage"
