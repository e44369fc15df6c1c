# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that is put around a user's advice, and C that is compiled to learn how the advised function passes its
arguments and result.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from gilk.lang.c.signature import CSignature
from gilk.lang.c.wrapper import ENTRY, FORM, PLAIN

MEASURE, RESULTS = "gilk_advice_measure", "gilk_advice_results"
INTEGERS, VECTORS = "gilk_advice_integers", "gilk_advice_vectors"
#: The names of the runtime's functions that advice calls.
PROCEED, PROCEED_WITH, PASS = "gilk_advice_proceed", "gilk_advice_proceed_with", "gilk_advice_pass"
COPY_ENTER, COPY_LEAVE = "gilk_copy_enter", "gilk_copy_leave"
#: All of them.
OF_RUNTIME = (PROCEED, PROCEED_WITH, PASS, COPY_ENTER, COPY_LEAVE)
#: The names of memory that a session shares with the C in one process, and of memory that it shares with several
#: processes.
PRIVATE, SHARED = "gilk_private", "gilk_shared"


class When(StrEnum):
    """The time at which advice runs, in relation to the call."""

    BEFORE = "before"
    INPLACE = "inplace"
    AFTER = "after"


_DECLARED = """\
#include <gilk.h>
{declarations}
#define gilk_near __attribute__((visibility("hidden")))
extern gilk_near {result} gilk_advice_proceed(void);
extern gilk_near __attribute__((noreturn)) void gilk_advice_pass(void);
{with_others}
#define pass() gilk_advice_pass()
__attribute__((used)) const unsigned char {form} = 0;
__attribute__((used)) void {entry}(void) {{}}
#ifdef GILK_KEEP_ERRNO
extern int *__errno_location(void);
#define gilk_keep_errno int gilk_errno = *__errno_location()
#define gilk_restore_errno *__errno_location() = gilk_errno
#else
#define gilk_keep_errno do {{}} while (0)
#define gilk_restore_errno do {{}} while (0)
#endif
{before}
#include "{path}"
{after}
"""

_WITH_OTHERS = """\
extern gilk_near {result} gilk_advice_proceed_with({declared});
#define proceed(...) gilk_advice_proceed ## __VA_OPT__(_with)(__VA_ARGS__)"""
_AS_THEY_CAME = "#define proceed() gilk_advice_proceed()"

_BEFORE = """\
__attribute__((used)) void {plain}({fixed})
{{
	gilk_keep_errno;
	{function}({names});
	gilk_restore_errno;
}}"""

_AFTER = """\
__attribute__((used)) {result} {plain}({fixed})
{{
	{result} gilk_result = gilk_advice_proceed();
	gilk_keep_errno;
	gilk_result = {function}({names});
	gilk_restore_errno;
	return gilk_result;
}}"""

_AFTER_NOTHING = """\
__attribute__((used)) void {plain}({fixed})
{{
	gilk_advice_proceed();
	gilk_keep_errno;
	{function}({names});
	gilk_restore_errno;
}}"""

_MEASURED = """\
#include <gilk.h>
{declarations}
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wreturn-type"
struct gilk_marker {{
	char bytes[32];
}};

/* What comes behind all that the stack has of the arguments. */
__attribute__((used)) {result} {measure}({parameters}struct gilk_marker gilk_marker)
{{
	__asm__ volatile("lea %0, %%rax" : : "m"(gilk_marker) : "rax");
	__builtin_unreachable();
}}

/* The registers that one more argument would be in, or the stack if there are none left. */
__attribute__((used)) {result} {integers}({parameters}long gilk_marker)
{{
	__asm__ volatile("mov %0, %%rax" : : "rm"(gilk_marker) : "rax");
	__builtin_unreachable();
}}

__attribute__((used)) {result} {vectors}({parameters}double gilk_marker)
{{
	__asm__ volatile("movsd %0, %%xmm15" : : "xm"(gilk_marker) : "xmm15");
	__builtin_unreachable();
}}

{results}
"""

_CLASSIFIED = """\
#define gilk_class __builtin_classify_type(*({result} *)0)
#define gilk_record (gilk_class == 12 || gilk_class == 13)
_Static_assert(sizeof({result}) <= 16 || gilk_record, "advice: a result of this type is not supported");
__attribute__((used)) const unsigned char {name} =
	gilk_class == 8 ? 4 : gilk_class == 9 ? 4 | 8 : gilk_record ? (sizeof({result}) > 16 ? 1 : 15)
		: sizeof({result}) > 8 ? 3 : 1;"""


def wrapper(path: Path, function: str, signature: CSignature, when: When, declarations: str) -> str:
    """The C around the user's file, which it includes, so that the compiler's messages name lines of that file. The
    advice becomes the function PLAIN.
    """
    parts = {
        "result": signature.result,
        "declared": signature.declared,
        "fixed": signature.fixed,
        "function": function,
        "plain": PLAIN,
    }
    names = ", ".join((*(("gilk_result",) if when is When.AFTER and not signature.is_void else ()), *signature.names))
    before = after = ""
    if when is When.INPLACE:
        before = f'{signature.result} {function}({signature.declared}) __asm__("{PLAIN}") __attribute__((used));'
    elif when is When.BEFORE:
        after = _BEFORE.format(**parts, names=names)
    else:
        after = (_AFTER_NOTHING if signature.is_void else _AFTER).format(**parts, names=names)
    others = _AS_THEY_CAME if signature.variadic or not signature.parameters else _WITH_OTHERS.format(**parts)
    return _DECLARED.format(
        declarations=declarations, result=signature.result, with_others=others, form=FORM, entry=ENTRY,
        before=before, after=after, path=path,
    )  # fmt: skip


def measured(signature: CSignature, declarations: str) -> str:
    """The C that tells how a function is called. The first instruction of its function MEASURE shows how many bytes of
    the arguments are on the stack; INTEGERS and VECTORS show how many arguments are in registers; RESULTS tells which
    registers hold the result.
    """
    parameters = "".join(f"{each}, " for each in signature.parameters)
    results = (
        f"__attribute__((used)) const unsigned char {RESULTS} = 0;" if signature.is_void
        else _CLASSIFIED.format(result=signature.result, name=RESULTS)
    )  # fmt: skip
    return _MEASURED.format(
        declarations=declarations, result=signature.result, measure=MEASURE, integers=INTEGERS, vectors=VECTORS,
        parameters=parameters, results=results,
    )  # fmt: skip
