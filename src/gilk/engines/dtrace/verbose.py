# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of a program and of its probes, for the option -v: how far users may rely on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from gilk.engines.dtrace.compiled import Compiled, ProgramText
from gilk.engines.dtrace.enabling import Enabled
from gilk.lang.d.probes import Description, DProbe, described
from gilk.lang.d.reliance import ProbeStability, ProgramStability
from gilk.lang.d.stability import HIGHEST, USUAL, Attributes, of_provider

if TYPE_CHECKING:
    from gilk.targets.base import Code, Target


def of_description(compiled: Compiled, description: Description) -> ProbeStability:
    provider = of_provider(description.provider, compiled.program.providers)
    types = compiled.argument_types(str(description))
    return ProbeStability(provider.of(description), provider.args, types)


def of_probes(
    compiled: Compiled, enabled: Enabled, process: Target | None, kernel: Code | None, probes: Iterable[DProbe]
) -> Iterator[tuple[DProbe, ProbeStability]]:
    """Each probe with its stability, with the variables that can be read at its places in the process, and with the
    reasons why it fires before a call is over."""
    from gilk.engines.dtrace.readable_locals import readable  # imported here: few programs need it

    early = dict(_early(enabled, process, kernel))
    sites = {probe.number: made.sites for probe, made in enabled.in_process}
    for probe in probes:
        found = of_description(compiled, Description(probe.provider, probe.module, probe.function, probe.name))
        locals_ = readable(process, sites.get(probe.number, ())) if process is not None else ()
        yield probe, replace(found, locals=locals_, early=early.get(probe.number, ()))


def _early(enabled: Enabled, process: Target | None, kernel: Code | None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The numbers of probes that fire at jumps after which a call may go on, each with the reasons."""
    from gilk.engines.dtrace.followed_calls import FollowedCalls  # imported here: few programs need it
    from gilk.targets.call_ends import CallEndFinder  # as above

    if process is not None:
        followed = FollowedCalls(process)
        yield from ((probe.number, followed.early(made)) for probe, made in enabled.in_process if made.calls)
    if kernel is not None:
        finder, loaded, analysis = CallEndFinder(kernel), kernel.loaded()[0], kernel.analysis(kernel.loaded()[0])
        for probe, made in enabled.in_kernel:
            if made.edge == "return" and made.function is not None and made.call is None:
                yield probe.number, finder.of(loaded, analysis.function(made.function)).why
            elif made.early:
                yield probe.number, made.early


def of_program(compiled: Compiled, program: ProgramText) -> ProgramStability:
    clauses = compiled.clauses(program)
    if not clauses:
        return ProgramStability(USUAL, USUAL)
    each = tuple((one, of_description(compiled, one)) for one in _descriptions(compiled, program))
    lowest = reduce(Attributes.lowest, (found.description for _, found in each), HIGHEST)
    return ProgramStability(lowest, reduce(Attributes.lowest, [clause.attributes for clause in clauses]), each)


def _descriptions(compiled: Compiled, program: ProgramText) -> list[Description]:
    """The descriptions of a program in the order of the text; equal neighbours count once."""
    found = [described(probe) for clause in compiled.clauses(program) for probe in clause.probes]
    return [each for number, each in enumerate(found) if number == 0 or each != found[number - 1]]
