# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scanning a target: its functions, blocks and points, and how each point can be spliced."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gilk.analysis.without_liveness import WithoutLiveness
from gilk.collector import without_collector
from gilk.engines.scan.count import Progress, analysed, outcomes
from gilk.engines.scan.subject import KERNEL, Subject, subjects
from gilk.engines.scan.table import keep, key_of, recall
from gilk.image import lookup
from gilk.image.elf import load
from gilk.splice.figures import Survey, SurveyPart, SurveyTable
from gilk.targets.image import analyse
from gilk.targets.inlined_everywhere import inlined_everywhere
from gilk.targets.lines import source_lines

if TYPE_CHECKING:
    from gilk.image.dwarf.inlined_everywhere import InlinedEverywhere
    from gilk.targets.kernel.link import Link


def scan(target: str, glob: str = "*", progress: Progress | None = None, link: Link | None = None) -> Survey:
    """Scan ``target``, an ELF file, ``pid:N`` or ``kernel``: how its points can be spliced.

    ``glob`` is ``[IMAGE:]FUNCTION`` with shell globs; without IMAGE, it is the main program. The result for a whole
    file comes from the cache if there is one. A process, and a choice of functions, are planned anew, since the result
    depends on what else is mapped and planned. In a kernel, this machine's or the one that ``link`` leads to, IMAGE is
    a module or ``kernel``; without it, all are scanned.

    Raises UsageError `bad-point`, `bad-target`, `no-such-image`, `no-such-function`; ImageError if a file is not a
    program for this machine; TargetError `no-such-process`, `no-permission`, `no-program`, `no-room`.
    """
    begun = time.monotonic()
    if target == KERNEL:
        return _kernel(link, glob, progress or _silent, begun)
    found, functions = subjects(target, glob)
    parts, recalled = [], True
    for subject in found:
        part, cached = _part(subject, functions, progress or _silent)
        parts.append(part)
        recalled &= cached
    return Survey(tuple(parts), time.monotonic() - begun, recalled)


def sources(survey: Survey) -> dict[tuple[str, int], str]:
    """The file and line where each function begins, as text, by image and address; functions whose line is unknown are
    missing."""
    found: dict[tuple[str, int], str] = {}
    for part in survey.parts:
        table = source_lines(part.path)
        if table is not None:
            lines = ((row, table.at(row.address)) for row in part.table.rows(part.image))
            found |= {(row.image, row.address): str(line) for row, line in lines if line is not None}
    return found


def without_code(survey: Survey) -> dict[str, InlinedEverywhere]:
    """The functions that are inlined wherever they are called, by image; images without such are missing."""
    found = {part.image: inlined_everywhere(part.path) for part in survey.parts}
    return {image: each for image, each in found.items() if each.names}


def _kernel(link: Link | None, glob: str, progress: Progress, begun: float) -> Survey:
    from gilk.engines.scan import kernel as survey_kernel

    subject = survey_kernel.KernelSubject(link or survey_kernel.LocalLink())
    shares, known = survey_kernel.survey(subject, glob, progress)
    build_id = subject.identity.partition("\n")[0]
    parts = tuple(SurveyPart(share.name, share.path, build_id, 0, share.table) for share in shares)
    return Survey(parts, time.monotonic() - begun, known)


def _part(subject: Subject, functions: str, progress: Progress) -> tuple[SurveyPart, bool]:
    key = key_of(subject.path)
    keepable = functions == "*" and not subject.live
    known = recall(key) if keepable else None
    if known is not None:
        return SurveyPart(subject.name, subject.path, key.build_id, 0, known), True
    table, bias = _surveyed(subject, functions, progress)
    if keepable:
        keep(key, table)
    return SurveyPart(subject.name, subject.path, key.build_id, bias, table), False


def _surveyed(subject: Subject, functions: str, progress: Progress) -> tuple[SurveyTable, int]:
    progress("reading", 0, 1)
    image = load(subject.path)
    spans = lookup.spans(image, functions)
    with without_collector():
        analysis = WithoutLiveness(image, analyse(image).jumps)
        chosen = analysed(analysis, spans, progress)
        pre, post = outcomes(analysis, lambda: subject.ground(analysis, makes_code=False), chosen, progress)
    return SurveyTable.of(chosen, pre, post), subject.bias(image)


def _silent(what: str, done: int, total: int) -> None:
    return
