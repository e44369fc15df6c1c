# SPDX-License-Identifier: LGPL-2.1-or-later
"""Caches compiled advice between runs, by everything that it is made of."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gilk.cache.blobs import load_blob, store_blob
from gilk.digest import digest, state_of
from gilk.lang.c.advice import When
from gilk.lang.c.signature import CSignature
from gilk.toolchain.advice import CompiledAdvice, Convention, compile_advice, made_with
from gilk.toolchain.compilers import identity
from gilk.toolchain.instrument import CompiledObject

_KIND: Final = "advice"
#: Words of C whose meaning depends on the time, or on files that are not there.
_CHANGING: Final = ("__DATE__", "__TIME__", "__TIMESTAMP__", "__has_include", "__has_embed")
_SEARCHED: Final = ("CPATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")  # variables that compilers heed


def kept_advice(
    source: Path, text: str, function: str, signature: CSignature, when: When, declarations: str = ""
) -> CompiledAdvice:
    """The same as compile_advice(), from the cache if it is there, and no file that the compiler has read has
    changed."""
    if any(word in text or word in declarations for word in _CHANGING):
        return compile_advice(source, text, function, signature, when, declarations)
    searched = [os.environ.get(name) for name in _SEARCHED]
    facts = (str(source.resolve()), text, function, signature, when, declarations, identity(), made_with(), searched)
    key = digest(repr(facts).encode("utf-8", "surrogateescape")).digest()
    found = _read(load_blob(_KIND, key), source)
    if found is None:
        found = compile_advice(source, text, function, signature, when, declarations)
        store_blob(_KIND, key, _written(found))
    return found


def _written(one: CompiledAdvice) -> bytes:
    absent = [path for path in _nearer(one) if not os.path.exists(path)]
    said = {
        "function": one.compiled.function, "names": one.compiled.undefined, "more": one.more,
        "called": [one.called.stack, one.called.integers, one.called.vectors, one.called.results],
        "flags": [one.vectors, one.proceeds, one.goes_on], "files": [str(file) for file in one.files],
        "states": _states(one.files), "absent": absent,
    }  # fmt: skip
    return json.dumps(said).encode() + b"\n" + one.compiled.content


def _nearer(one: CompiledAdvice) -> list[str]:
    """The files beside the advice that the compiler would read in place of a file that it has read, if they were
    there."""
    place = one.compiled.source.resolve().parent
    suffixes = {"/".join(file.parts[-n:]) for file in one.files for n in range(1, len(file.parts))}
    return [str(place / each) for each in sorted(suffixes)]


def _states(files: Sequence[Path]) -> list[list[int]] | None:
    """The states of the files; None if one is not there."""
    try:
        return [list(state_of(file.stat())) for file in files]
    except OSError:
        return None


def _read(kept: bytes | None, source: Path) -> CompiledAdvice | None:
    """The advice that _written() has stored; None if it was made of files that have changed since."""
    if kept is None:
        return None
    line, _, content = kept.partition(b"\n")
    said = json.loads(line)
    files = tuple(map(Path, said["files"]))
    states = _states(files)
    if states is None or states != said["states"] or any(map(os.path.exists, said["absent"])):
        return None
    compiled = CompiledObject(source, said["function"], content, tuple(said["names"]))
    vectors, proceeds, goes_on = said["flags"]
    return CompiledAdvice(compiled, Convention(*said["called"]), said["more"], vectors, proceeds, goes_on, files)
