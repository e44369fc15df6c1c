# SPDX-License-Identifier: LGPL-2.1-or-later
"""Texts that users name by a file: as they are, and refused where they have no end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gilk.errors import UsageError
from gilk.inputs import MOST, read_text
from gilk.runs.experiment.file import load
from tests.behaviour.harness import run_gilk

ENDLESS = "/dev/zero"


def test_a_text_is_read_as_it_is(tmp_path: Path) -> None:
    """This holds for line ends of other systems, for bytes that are not UTF-8, and up to the limit."""
    path = tmp_path / "text"
    for content in (b"", b"one\r\ntwo\xff\n", b"x" * MOST):
        path.write_bytes(content)
        assert read_text(path).encode("utf-8", "surrogateescape") == content


def test_a_text_from_a_pipe_is_read_whole() -> None:
    source, sink = os.pipe()
    os.write(sink, b"BEGIN { }")
    os.close(sink)
    try:
        assert read_text(Path(f"/proc/self/fd/{source}")) == "BEGIN { }"
    finally:
        os.close(source)


def test_a_text_longer_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"x" * (MOST + 1))
    with pytest.raises(UsageError, match="more than 4 million characters") as error:
        read_text(path)
    assert error.value.slug == "too-long"


@pytest.mark.parametrize(
    "words",
    [
        ("dtrace", "-s", ENDLESS),
        ("dtrace", "-s", ENDLESS, "--words", "0"),
        ("dtrace", "-n", "BEGIN { exit(0); }", "-L", "LIBRARIES"),
        ("aspect", "check", ENDLESS),
    ],
)
def test_commands_refuse_files_without_an_end(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "endless.d").symlink_to(ENDLESS)
    done = run_gilk(*(str(tmp_path) if word == "LIBRARIES" else word for word in words))
    assert done.returncode not in (0, None) and not done.stdout
    assert f"{ENDLESS if 'LIBRARIES' not in words else tmp_path / 'endless.d'} has more than" in done.stderr


def test_experiments_without_an_end_and_ones_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for content, why, slug in (
        (None, "more than 4 million", "too-long"), (b"title = '\xff'", "it is not text", "bad-experiment")
    ):  # fmt: skip
        path = tmp_path / f"{why[:2]}.toml"
        path.symlink_to(ENDLESS) if content is None else path.write_bytes(content)
        with pytest.raises(UsageError, match=why) as error:
            load(path)
        assert error.value.slug == slug
