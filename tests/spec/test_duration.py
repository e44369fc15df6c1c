# SPDX-License-Identifier: LGPL-2.1-or-later
"""Durations are read alike everywhere, and so are those that reports print."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gilk.cli.duration import Duration
from gilk.errors import UsageError
from gilk.render import text
from gilk.runs.experiment import file as experiment
from gilk.spec import event
from gilk.spec.duration import UNITS, nanoseconds, seconds

EXPERIMENT = """
duration = "{}"
[workload]
command = "true"
[[instrument]]
points = "main:entry"
instrument = "count"
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0", 0),
        ("2", 2_000_000_000),
        ("2s", 2_000_000_000),
        ("1.5", 1_500_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("200ms", 200_000_000),
        ("200 ms", 200_000_000),
        ("1.5us", 1_500),
        ("7ns", 7),
        ("0.4ns", 0),
        ("1.5min", 90_000_000_000),
        ("2m", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("1e3us", 1_000_000),
        ("25e-1", 2_500_000_000),
    ],
)
def test_a_number_and_a_unit(written: str, expected: int) -> None:
    assert nanoseconds(written) == expected
    assert seconds(written) == expected / 1e9


@pytest.mark.parametrize("written", ["", "s", "soon", "-1", "1x", "1 s 2", "1.2.3", ".", "2S", "1e999", "9" * 65, "٣s"])
def test_malformed_durations_are_refused(written: str) -> None:
    assert nanoseconds(written) is None
    assert seconds(written) is None


@given(st.integers(0, 10**15), st.sampled_from(sorted(UNITS)))
def test_units_are_multiples_of_a_nanosecond(number: int, unit: str) -> None:
    assert nanoseconds(f"{number}{unit}") == number * UNITS[unit]


@given(st.decimals(0, 10**6, allow_nan=False, places=9))
def test_fractions_are_exact(number: object) -> None:
    assert nanoseconds(f"{number:f}s") == Fraction(str(number)) * 10**9


@given(st.integers(0, 999), st.sampled_from([1, 10, 100, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9]))
def test_a_duration_can_be_typed_as_reports_print_it(digits: int, size: int) -> None:
    """Three digits are printed, so a number that has no more comes back as it was."""
    assert nanoseconds(text.nanoseconds(digits * size)) == digits * size


@pytest.mark.parametrize("written", ["3", "250ms", "1.5min", "90s", "2h", "10us", "500ns"])
def test_commands_events_and_experiments_agree(written: str, tmp_path: Path) -> None:
    @click.command()
    @click.option("--for", "lasting", type=Duration("1s"))
    def command(lasting: int) -> None:
        click.echo(lasting)

    file = tmp_path / "x.toml"
    file.write_text(EXPERIMENT.format(written))
    after = event.parse(f"after:{written}")
    assert isinstance(after, event.Elapsed)
    assert int(CliRunner().invoke(command, ["--for", written]).output) == nanoseconds(written)
    assert after.seconds == experiment.load(file).duration == seconds(written)


def test_an_option_refuses_what_is_no_time() -> None:
    option = click.Option(["--bin"])
    for written, what in (("soon", "is not a time"), ("0", "is too short"), ("-1s", "is not a time")):
        with pytest.raises(UsageError) as caught:
            Duration("10us or 1ms", least=1).convert(written, option, None)
        assert caught.value.message == f"--bin: {written!r} {what}"
        assert caught.value.hint == "for example 10us or 1ms"
