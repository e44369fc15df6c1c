# SPDX-License-Identifier: LGPL-2.1-or-later
"""The description in a file of samples, besides the samples: two frozen values and their JSON.

`About` is known when a session starts; `Tally` grows until it ends.
"""

from __future__ import annotations

import base64
import json
import typing
import zlib
from collections.abc import Callable
from dataclasses import asdict, field, fields
from types import GenericAlias, UnionType
from typing import Any, TypeVar

from gilk.errors import StoreError
from gilk.trace import coverage, image_files
from gilk.trace import probes as probe_rows
from gilk.trace.clock import Clock
from gilk.trace.coverage import FunctionCoverage
from gilk.trace.image_files import ImageFile
from gilk.trace.probes import ProbeRow
from gilk.trace.text import storable
from gilk.trace.traced import TraceDescription
from gilk.values import dataclass

VERSION = 1
_LARGEST = 1 << 29  # the most bytes of JSON
T = TypeVar("T")


@dataclass(frozen=True)
class About:
    """The session that made a file. `start` is in ns of CLOCK_MONOTONIC and is time 0 of the samples; adding `realtime`
    gives CLOCK_REALTIME. `images` are the files of the probes' images, as far as they are known.
    """

    host: str
    command: tuple[str, ...]
    pids: tuple[int, ...]
    start: int
    realtime: int
    clock: Clock
    probes: tuple[ProbeRow, ...]
    version: int = VERSION
    images: tuple[ImageFile, ...] = ()

    def to_json(self) -> str:
        lists = {"probes": probe_rows.to_json(self.probes), "images": image_files.to_json(self.images)}
        return json.dumps({**vars(self), "clock": asdict(self.clock), **lists})

    @classmethod
    def from_json(cls, text: str | bytes) -> About:
        """The value that to_json() gave. Raises StoreError `bad-trace` for any other text, and for one of a later
        version.
        """
        raw = _object(text)
        if raw.get("version") != VERSION:
            hint = "use the gilk that wrote it"
            raise StoreError("bad-trace", f"version {raw.get('version')!r} of the format is not known here", hint)
        raw["probes"] = probe_rows.from_json(raw.get("probes", ()))
        raw["images"] = image_files.from_json(raw.get("images", ()))
        raw["clock"] = _clock(raw.get("clock"))
        return _build(cls, raw)


@dataclass(frozen=True)
class Tally:
    """The counts of a session, so far or at its end.

    `counts` are by point. `lost` are hits of threads that found every block taken, `nested` hits from within
    instruments, `corrupt` the number of rings put aside. `duration` is in ns. `report` is a RunReport's JSON; {} before
    the end. `refused` has the reason for each point that was asked for and refused; such a point is not in `counts`.
    `blocks` has the functions whose blocks were counted, with the places of these in the code.

    `trace` is there if the flow of control was followed (it is here and not in About, because its events come later,
    and more and more functions may be left out).
    """

    counts: dict[str, int] = field(default_factory=dict)
    drops: int = 0
    lost: int = 0
    nested: int = 0
    corrupt: int = 0
    duration: int = 0
    partial: bool = True
    report: dict[str, Any] = field(default_factory=dict)
    trace: TraceDescription | None = None
    refused: dict[str, str] = field(default_factory=dict)
    blocks: tuple[FunctionCoverage, ...] = ()

    def to_json(self) -> str:
        trace = self.trace.to_json() if self.trace else None
        return json.dumps({**vars(self), "trace": trace, "blocks": coverage.to_json(self.blocks)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Tally:
        """The value that to_json() gave. Raises StoreError `bad-trace` for any other text."""
        raw = _object(text)
        raw["trace"] = TraceDescription.from_json(raw.get("trace"))
        raw["blocks"] = coverage.from_json(raw.get("blocks", ()))
        tally = _build(cls, raw)
        if not all(type(n) is int for n in tally.counts.values()):
            raise StoreError("bad-trace", "its counts are not numbers")
        if not all(type(why) is str for why in tally.refused.values()):
            raise StoreError("bad-trace", "its reasons for refusals are not words")
        return tally


def pack(text: str) -> bytes:
    """JSON in the form for a file's metadata: compressed, and text again. Otherwise a hundred thousand probes are 20
    MB, of which a Parquet footer would hold two copies, and beyond 100 MB it cannot be read any more.
    """
    return base64.b64encode(zlib.compress(text.encode(), 1))


def unpack(packed: bytes) -> bytes:
    """The JSON that pack() was given. Raises StoreError `bad-trace` for any other bytes, or if it is far too large."""
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed, validate=True), _LARGEST)
    except (ValueError, zlib.error) as error:
        raise StoreError("bad-trace", f"its description cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise StoreError("bad-trace", "its description is cut short, or too large")
    return text


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
        if (b"\\ud" if isinstance(text, bytes) else "\\ud") in text.lower():  # type: ignore[operator]
            value = _unicode(value)
    except (ValueError, RecursionError) as error:
        raise StoreError("bad-trace", f"its description is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise StoreError("bad-trace", "its description is not a JSON object")
    return value


def _unicode(value: Any) -> Any:
    """The JSON value with its texts as tables take them."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_unicode(each) for each in value]
    return {_unicode(k): _unicode(v) for k, v in value.items()} if isinstance(value, dict) else value


def _clock(raw: Any) -> Clock:
    if not isinstance(raw, dict) or not isinstance(raw.get("ticks_per_ns"), float) or not raw["ticks_per_ns"] > 0:
        raise StoreError("bad-trace", "it does not say how its clock ran")
    return _build(Clock, raw)


def _build(cls: Callable[..., T], raw: dict[str, Any]) -> T:
    """An instance of the dataclass `cls`; every value must have the type of its field. Raises StoreError
    `bad-trace`.
    """
    hints = typing.get_type_hints(cls)
    known = {item.name: raw[item.name] for item in fields(cls) if item.name in raw}  # type: ignore[arg-type]
    for name, value in known.items():
        known[name] = tuple(value) if isinstance(value, list) else value
        if not _fits(known[name], hints[name]):
            raise StoreError("bad-trace", f"its {name} is not of the right type")
    try:
        return cls(**known)
    except TypeError as error:
        raise StoreError("bad-trace", f"its description is incomplete: {error}") from error


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return type(value) in typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(type(part) is typing.get_args(kind)[0] for part in value)
    return type(value) is (typing.get_origin(kind) if isinstance(kind, GenericAlias) else kind)
