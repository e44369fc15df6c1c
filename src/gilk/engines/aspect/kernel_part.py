# SPDX-License-Identifier: LGPL-2.1-or-later
"""The part of a file of aspects that is for a kernel."""

from __future__ import annotations

from gilk.errors import UsageError
from gilk.lang.aspect.checked import CheckedFile


def confined_file(file: CheckedFile, shared: bool = False, replaces: bool = False) -> CheckedFile:
    """The file, its elements in the kernel with confined C. ``shared``: processes have the state, too, whatever the
    file says.

    ``replaces``: advice may stand in place of functions. Raises UsageError `cannot-weave`.
    """
    if not any(one.kernel for aspect in file.aspects for one in (*aspect.elements, *aspect.until)):
        return file
    from gilk.lang.aspect.kernel.confining import NotForKernel, confined  # late: most files need none of it

    try:
        return confined(file, shared, replaces)
    except NotForKernel as error:
        where = f"{file.source.name}, line {file.source.line(error.span)}"
        raise UsageError("cannot-weave", f"{where}: {error.why}", error.hint) from None
