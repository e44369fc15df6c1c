# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that walks stacks, for aspects that say ``walk`` or ``verify`` (native/include/gilk_walk.h)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.code.meeting import MetAlternative, MetElement


def walking(elements: Sequence[MetElement]) -> Iterator[str]:
    """The include that walking needs, if any of the elements walks."""
    if any(one.walks for one in elements):
        yield "#include <gilk_walk.h>"


def found_on_stack(met: MetElement, one: MetAlternative) -> str:
    """A test whether the outer functions of a control flow are on the stack; "" if the stack is not walked for them."""
    if not one.walked:
        return ""
    sets = ", ".join(f"{at}UL" for at in one.walked)
    given = f"gilk_sets, {len(one.walked)}, {int(one.strict)}, {_counted(met, 'unwalked')}"
    asked = f"gilk_access_is_within(gilk_came->access, {given})" if one.of_access else f"gilk_call_is_within({given})"
    return f"static const gilk_u64 gilk_sets[] = {{ {sets} }};\nif (!{asked}) break;\n"


def verified(met: MetElement, one: MetAlternative) -> str:
    """A comparison of the calls that are recorded with the stack; "" if the aspect does not ask for it."""
    if not met.aspect.checked.verify:
        return ""
    unwalked, whose = _counted(met, "unwalked"), met.aspect.number | met.number << 8
    asked = f"gilk_access_misses(gilk_came->access, {unwalked})" if one.of_access else f"gilk_call_misses({unwalked})"
    return f"""\
{{
const struct gilk_activation_head *gilk_missing = {asked};
if (gilk_missing) {{
gilk_add({_counted(met, "disagreed")}, 1);
gilk_report({whose}, "verify: a call of %s is recorded as under way, but is not on the stack",
	gilk_missing->about->function);
}}
}}
"""


def _counted(met: MetElement, name: str) -> str:
    return f"&gilk_shared.part[{met.aspect.number}].counts.{name}"
