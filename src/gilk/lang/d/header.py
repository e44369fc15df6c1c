# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C header of the providers that a program defines (dtrace -h): for each probe a macro, and a macro that tells
whether anything listens to it.

A probe is a nop with a note that says where it is and where its arguments are, as <sys/sdt.h> leaves it (systemtap's
wiki, UserSpaceProbeImplementation). The nop has five bytes, so that a jump fits on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gilk.errors import UsageError
from gilk.lang.d.tree import Interface
from gilk.lang.types import Array, Enumeration, Float, Integer, Pointer, String, Type, text

#: The number of arguments that D reaches as arg0, arg1...; further arguments are evaluated and ignored.
FETCHED = 10
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long"}
_ANYTHING = "const volatile void *"

#: {guard}: the include guard of the file.
_BEGIN = """\
/* Made by gilk dtrace -h. */
#ifndef {guard}
#define {guard}

#ifndef _DTRACE_VERSION
#define _DTRACE_VERSION 1
#endif

#if _DTRACE_VERSION && defined(__GNUC__) && defined(__x86_64__) && defined(__LP64__)

"""

#: The labels are local. The text between pushsection and popsection is the note, which is not loaded.
_MARK = r"""#ifndef _GILK_MARK
#define _GILK_MARK(provider, name, arguments) \
	"990:	.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" \
	"	.pushsection .note.stapsdt, \"?\", \"note\"\n" \
	"	.balign 4\n" \
	"	.4byte 992f - 991f, 994f - 993f, 3\n" \
	"991:	.asciz \"stapsdt\"\n" \
	"992:	.balign 4\n" \
	"993:	.8byte 990b, _.stapsdt.base, %c[listened]\n" \
	"	.asciz \"" provider "\"\n" \
	"	.asciz \"" name "\"\n" \
	"	.asciz \"" arguments "\"\n" \
	"994:	.balign 4\n" \
	"	.popsection\n" \
	"	.ifndef _.stapsdt.base\n" \
	"	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
	"	.weak _.stapsdt.base\n" \
	"	.hidden _.stapsdt.base\n" \
	"_.stapsdt.base:\n" \
	"	.space 1\n" \
	"	.size _.stapsdt.base, 1\n" \
	"	.popsection\n" \
	"	.endif\n"
/* How many listen to a probe: one counter in each program or library, however many of its files count on it. */
#define _GILK_LISTENED __attribute__((weak, visibility("hidden"), section(".probes"))) volatile unsigned short
#define _GILK_INLINE static __inline__ __attribute__((always_inline, unused)) void
#endif

#ifdef __cplusplus
extern "C" {
#endif

"""

_PROBE = """\
_GILK_LISTENED {counter} = 0;
_GILK_INLINE {function}({parameters})
{{
	__asm__ __volatile__(_GILK_MARK("{provider}", "{name}", "{places}")
		:: [listened] "i"(&{counter}){operands}{clobber});{unused}
}}
#define {macro}({names}) {function}({names})
#define {macro}_ENABLED() __builtin_expect({counter} != 0, 0)

"""

_NOTHING = """\
#define {macro}({names})
#define {macro}_ENABLED() (0)
"""

_ELSE = """\
#ifdef __cplusplus
}
#endif

#else

"""


def header(interfaces: Sequence[Interface], file: str) -> str:
    """The header. ``file``: its future name. Raises UsageError `not-for-a-header`."""
    guard = "_" + re.sub(r"\W", "_", file, flags=re.ASCII).upper()
    given = [(one.name, name, types) for one in interfaces for name, types in one.probes]
    probes = "".join(_probe(*each) for each in given)
    empty = "".join(_NOTHING.format(**_names(*each)) for each in given)
    return f"{_BEGIN.format(guard=guard)}{_MARK}{probes}{_ELSE}{empty}\n#endif\n\n#endif /* {guard} */\n"


def _names(provider: str, probe: str, types: Sequence[Type]) -> dict[str, str]:
    macro = f"{provider}_{probe.replace('__', '_')}".upper()
    return {"macro": macro, "names": ", ".join(f"arg{number}" for number in range(len(types)))}


def _probe(provider: str, probe: str, types: Sequence[Type]) -> str:
    """A probe's function, which is always inlined: it converts the arguments to the defined types, and places the probe
    in its caller.
    """
    rows = [passed(provider, probe, type_) for type_ in types]
    fetched = rows[:FETCHED]
    return _PROBE.format(
        **_names(provider, probe, types),
        **{"provider": provider, "name": probe},
        function=f"_gilk_{provider}___{probe}",
        counter=f"{provider}_{probe}_semaphore",
        parameters=", ".join(f"{declared} arg{number}" for number, (declared, _, _) in enumerate(rows)) or "void",
        places=" ".join(f"{size}@%[a{number}]" for number, (_, size, _) in enumerate(fetched)),
        operands="".join(
            f',\n\t\t   [a{number}] "{where}"(arg{number})' for number, (_, _, where) in enumerate(fetched)
        ),
        # Memory to which an argument points has to be written before the probe.
        clobber='\n\t\t: "memory"' if any(declared == _ANYTHING for declared, _, _ in fetched) else "",
        unused="".join(f"\n\t(void)arg{number};" for number in range(FETCHED, len(rows))),
    )


def passed(provider: str, probe: str, type_: Type) -> tuple[str, str, str]:
    """A parameter's type, its size in the note (negative if signed), and the constraint that tells the compiler where
    to keep it.

    Memory is excluded, since an operand with a symbol in it means nothing once the symbols are stripped. Raises
    UsageError `not-for-a-header`.
    """
    match type_:
        case Integer(size=size, signed=True):
            return f"signed {_INTEGERS[size]}", f"-{size}", "nr"
        case Integer(size=size):
            return f"unsigned {_INTEGERS[size]}", str(size), "nr"
        case Enumeration():
            return "int", "-4", "nr"
        case Pointer() | Array() | String():
            return _ANYTHING, "8", "nr"
        case Float(size=4):
            return "float", "4f", "xm"
        case Float():
            return "double", "8f", "xm"
    what = f"probe {probe} of provider {provider} gives a {text(type_)}, which is neither a number nor a pointer"
    raise UsageError("not-for-a-header", what, "give its members, or its address")
