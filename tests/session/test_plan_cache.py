# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cache's plans of whole images: found again, made anew when anything about them is wrong, and never trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gilk import activity
from gilk.cache import arrays, key, place
from gilk.image.elf import load
from gilk.image.model import Image
from gilk.session import plan_cache, plan_workers
from gilk.session.plan_cache import TIMING
from gilk.splice.template import PlanTemplate
from gilk.targets import wire
from gilk.targets.base import Loaded
from gilk.targets.image import analyse
from gilk.targets.process import Process
from gilk.targets.templates import Shape
from tests.programs.build import build

SHAPE = Shape(4096, ((1 << 20, 1 << 20),) * 4)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GILK_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def as_it_is() -> Iterator[None]:
    yield
    key.sources.cache_clear()


def image(name: str) -> Image:
    return load(build(name))


def same(a: PlanTemplate | None, b: PlanTemplate) -> bool:
    arrays = a.to_arrays() if a else {}
    return arrays.keys() == b.to_arrays().keys() and all(
        np.array_equal(array, b.to_arrays()[name]) for name, array in arrays.items()
    )


def file_of(text: str) -> Path:
    return place.cache_dir() / arrays._name(text)


def test_stored_plans_are_loaded() -> None:
    made = plan_cache.make_timing(analyse(image("shortblocks")), SHAPE)
    assert made.rows > 10
    assert same(plan_cache.load(TIMING, image("shortblocks"), SHAPE), made)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: b"PK" + os.urandom(5000),
        lambda data: data[:1000] + bytes(len(data) - 1000),
        *(lambda data, at=at: flipped(data, len(data) * at // 40) for at in range(0, 40, 5)),
        *(
            pytest.param(lambda data, at=at: flipped(data, len(data) * at // 40), marks=pytest.mark.stress)
            for at in range(40)
            if at % 5
        ),
    ],
)
def test_a_damaged_file_is_not_used(damage: Callable[[bytes], bytes]) -> None:
    made = plan_cache.make_timing(analyse(image("shortblocks")), SHAPE)
    file = file_of(plan_cache.key(TIMING, image("shortblocks"), SHAPE))
    before = file.read_bytes()
    file.write_bytes(damage(before))
    found = plan_cache.load(TIMING, image("shortblocks"), SHAPE)
    assert found is None or same(found, made), "something else was read"
    assert same(plan_cache.make_timing(analyse(image("shortblocks")), SHAPE), made)
    assert same(plan_cache.load(TIMING, image("shortblocks"), SHAPE), made), "it was not made anew"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0x55,)) + data[at + 1 :]


def test_plans_of_another_program_are_not_used() -> None:
    """The plans are complete and sound, but for other code."""
    other = plan_cache.make_timing(analyse(image("jumptable")), SHAPE)
    arrays.store_arrays(plan_cache.key(TIMING, image("shortblocks"), SHAPE), other.to_arrays())
    assert plan_cache.load(TIMING, image("shortblocks"), SHAPE) is None


def test_sites_outside_of_the_code_are_not_used() -> None:
    made = plan_cache.make_timing(analyse(image("shortblocks")), SHAPE)
    for far in (-(1 << 31), 1 << 20, (1 << 31) - 1 - int(made.site_at.max())):
        copies = {name: array.copy() for name, array in made.to_arrays().items()}
        moved = PlanTemplate.from_arrays(copies)
        moved.site_at[...] = np.maximum(made.site_at.astype(np.int64) + far, -(1 << 31))
        arrays.store_arrays(plan_cache.key(TIMING, image("shortblocks"), SHAPE), moved.to_arrays())
        assert plan_cache.load(TIMING, image("shortblocks"), SHAPE) is None


def test_the_key_covers_everything_that_plans_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key differs for another version, another shape of instruments, and other code or names under the same
    build-id."""
    known = image("shortblocks")
    keys = {plan_cache.key(TIMING, known, SHAPE), plan_cache.key(TIMING, image("jumptable"), SHAPE)}
    keys.add(plan_cache.key(TIMING, known, replace(SHAPE, assume_live=1)))
    keys.add(plan_cache.key(TIMING, known, replace(SHAPE, rings=((1 << 20, 1 << 16),) * 4)))
    segments = tuple(replace(s, data=flipped(s.data, 0)) if s.executable else s for s in known.segments)
    keys.add(plan_cache.key(TIMING, replace(known, segments=segments), SHAPE))
    keys.add(plan_cache.key(TIMING, replace(known, spans=known.spans[1:]), SHAPE))
    key.sources.cache_clear()
    monkeypatch.setattr(key, "VERSION", "another")
    keys.add(plan_cache.key(TIMING, known, SHAPE))
    assert len(keys) == 7


def test_a_worker_process_makes_the_same_plans() -> None:
    told: list[tuple[int, int]] = []
    known = image("jumptable")
    apart = plan_workers._make_apart(
        known.path, plan_cache.key(TIMING, known, SHAPE), SHAPE, lambda done, of: told.append((done, of))
    )
    assert same(apart, plan_cache.make_timing(analyse(known), SHAPE))
    assert told and told == sorted(told) and told[-1] == (len(known.spans),) * 2


def test_several_images_are_planned_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each image is planned in a process of its own; one that cannot be planned does not hinder the others."""
    monkeypatch.setattr(plan_workers, "_processors", lambda: 2)
    paths = [build("shortblocks"), build("jumptable"), build("recursion")]
    images = {path: load(path) for path in paths}
    process = cast(Process, SimpleNamespace(image=images.__getitem__))
    told: list[tuple[int, int]] = []
    missing = {plan_cache.key(TIMING, images[path], SHAPE): Loaded(path, 0, 0, 0, False) for path in paths}
    missing["of a file that was replaced"] = Loaded(paths[0], 0, 0, 0, False)
    made = plan_workers._make(process, missing, SHAPE, lambda done, of: told.append((done, of)))
    assert made.keys() == missing.keys() - {"of a file that was replaced"}
    for path in paths:
        assert same(plan_cache.load(TIMING, images[path], SHAPE), made[plan_cache.key(TIMING, images[path], SHAPE)])
    spans = sum(len(images[path].spans) for path in [*paths, paths[0]])
    assert all(of == spans and done <= of for done, of in told) and told
    assert re.fullmatch(rf"analysing [0-4] of 4 images, \d+ of {spans} functions", str(activity.latest()))


def test_a_missing_file_has_no_plans() -> None:
    assert plan_workers._make_apart(Path("/no/such/file"), "key", SHAPE, lambda done, of: None) is None


def test_a_worker_that_dies_leaves_no_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(channel: Any) -> Any:
        raise wire.ChannelClosed

    known = image("jumptable")
    monkeypatch.setattr(wire, "receive", receive)
    wanted = plan_cache.key(TIMING, known, SHAPE)
    assert plan_workers._make_apart(known.path, wanted, SHAPE, lambda done, of: None) is None
