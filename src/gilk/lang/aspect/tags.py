# SPDX-License-Identifier: LGPL-2.1-or-later
"""Names for the errors in a file of aspects; docs/aspect/language.md has an example of each."""

from __future__ import annotations

from enum import StrEnum


class AspectTag(StrEnum):
    A_SYNTAX = "A_SYNTAX"  # a token that cannot stand there
    A_C = "A_C"  # a fragment of C that does not end, is empty, or has brackets that do not match
    A_SIGNATURE = "A_SIGNATURE"  # a declaration that C does not have, or names that do not fit it
    A_NO_SUCH = "A_NO_SUCH"  # when weaving: no function or variable has that name
    A_AMBIGUOUS = "A_AMBIGUOUS"  # when weaving: several functions or variables have that name
    A_UNBOUND = "A_UNBOUND"  # a name that has no value there, or that nothing has
    A_TYPE = "A_TYPE"  # a value that the event does not have, or of a type that is not possible
    A_FIRST_ACCESS = "A_FIRST_ACCESS"  # a sequence begins with an access whose address nothing has bound
    A_REPEAT = "A_REPEAT"  # a star on the first element, the last or the only one
    A_GROUP = "A_GROUP"  # a group that is not declared, or is declared wrongly
    A_PLACE = "A_PLACE"  # a bound value that has another size in the kernel
    A_ABI = "A_ABI"  # a value that is passed in a way that advice cannot see
    A_PROCEED = "A_PROCEED"  # proceed in advice that cannot proceed, or with the wrong number of arguments
    A_AFTER = "A_AFTER"  # the returned value is bound in advice that runs before the return
    A_NORETURN = "A_NORETURN"  # the returned value of a function that does not return
    A_STATE = "A_STATE"  # an instance keeps more than it has room for
    A_ELSEWHERE = "A_ELSEWHERE"  # a place on another machine
    A_UNKEYED = "A_UNKEYED"  # warning: every match looks at all open instances
    A_LEAK = "A_LEAK"  # warning: nothing ends an instance whose last element does not come


#: Findings of these tags do not keep an aspect from being woven.
WARNINGS = frozenset({AspectTag.A_UNKEYED, AspectTag.A_LEAK})
#: Tags that are found only when an aspect meets a program, never from the text alone.
AT_WEAVING = frozenset({AspectTag.A_NO_SUCH, AspectTag.A_AMBIGUOUS})
