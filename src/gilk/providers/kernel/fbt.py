# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``fbt``, also called ``rawfbt``: the entries and returns of functions of the kernel and of its
modules."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from gilk.image.kernel.build import NAME
from gilk.lang.d.probes import Description
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_PROVIDERS = ("fbt", "rawfbt")
_EDGES = ("entry", "return")
_CORE = "vmlinux"  # DTrace's name for the kernel without its modules


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes that the description means. One without a provider means those of ``fbt``."""
    providers = [one for one in _PROVIDERS if fnmatch.fnmatchcase(one, description.provider or "fbt")]
    edges = [edge for edge in _EDGES if fnmatch.fnmatchcase(edge, description.name or "*")]
    if not providers or not edges or description.number:
        return
    module, glob = description.module or "*", description.function or "*"
    for span, owner in zip(target.kernel.image.spans, target.kernel.owners, strict=True):
        name = _CORE if owner == NAME else owner
        if fnmatch.fnmatchcase(name, module) and fnmatch.fnmatchcase(span.name, glob):
            for provider in providers:
                yield from (KernelProbe((provider, name, span.name, edge), span, edge) for edge in edges)
