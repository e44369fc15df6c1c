# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds out which functions never return.

For functions of other images only the name tells. For a function of the same image its code does: a compiler that knows
that a function does not return leaves no ``ret`` in it. A function that has one is taken to return even if no path
leads there: that only adds blocks, while the contrary would hide code.
"""

from __future__ import annotations

import re
from typing import Final

from iced_x86 import Instruction

from gilk.analysis.jumps import LEAVES_BY_INDIRECT_JUMP, LEAVES_BY_RETURN, JumpTargets
from gilk.arch import decode as x86
from gilk.image.model import FunctionSpan, Image

LEAVES: Final = LEAVES_BY_RETURN | LEAVES_BY_INDIRECT_JUMP

_NAMES: Final = """
    abort exit _exit _Exit quick_exit exit_group thrd_exit pthread_exit __pthread_exit
    __assert __assert_fail __assert_perror_fail __assert_rtn __stack_chk_fail __stack_chk_fail_local __chk_fail
    __fortify_fail __libc_fatal __libc_start_main __fdelt_chk_fail
    longjmp _longjmp siglongjmp __longjmp __longjmp_chk ____longjmp_chk __libc_longjmp __libc_siglongjmp
    err errx verr verrx errc verrc
    __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid __cxa_call_terminate __cxa_call_unexpected
    __cxa_throw_bad_array_length __cxa_throw_bad_array_new_length __cxa_pure_virtual __cxa_deleted_virtual
    _Unwind_Resume _ZSt9terminatev _ZSt10unexpectedv __clang_call_terminate
    g_assertion_message g_assertion_message_expr g_assertion_message_cmpnum g_assertion_message_error g_abort
    _Py_FatalErrorFunc Py_Exit rust_panic rust_begin_unwind xalloc_die
    """
_NORETURN: Final = frozenset(_NAMES.split())

# libstdc++'s std::__throw_*; Rust's panics in the legacy and the v0 mangling.
_PATTERN: Final = re.compile(
    r"_ZSt\d+__throw_|_ZSt21__glibcxx_assert_fail|_ZSt17rethrow_exception|_ZNSt\d+__throw_"
    r"|_ZN4core9panicking|_ZN3std9panicking\d+(begin_panic|rust_panic)|_ZN5alloc5alloc18handle_alloc_error"
    r"|_ZN5alloc7raw_vec(17capacity_overflow|12handle_error)|_ZN4core6(option|result)\d+\w*_failed"
    r"|_ZN4core(5slice5index|3str)\d+slice_\w*fail"
    r"|_RNv\w*4core9panicking|_RNv\w*5alloc5alloc18handle_alloc_error"
)

# A function with one of the names above may be the program's own; these are reserved to the C library, whose
# implementation leaves by an indirect jump.
_RESERVED: Final = frozenset({"__longjmp", "____longjmp_chk"})


def named_noreturn(name: str) -> bool:
    """Whether a function of another image with this name never returns."""
    return name.partition("@")[0] in _NORETURN or _PATTERN.match(name) is not None


class Returns:
    """Tells for one image which functions and calls return; answers are remembered by function."""

    def __init__(self, image: Image, jumps: JumpTargets, known: dict[int, bool] | None = None) -> None:
        """``known``: answers that were found in another way, by the number of the span."""
        self.image = image
        self.jumps = jumps
        self._known = known or {}
        self._index = {span.start: i for i, span in enumerate(image.spans)}
        self._named = {name: i for i, span in enumerate(image.spans) for name in (span.name, *span.aliases)}

    def after(self, call: Instruction) -> bool:
        """Whether control may go on behind this call instruction."""
        if x86.is_direct_call(call):
            return self.at(call.near_branch_target)
        if call.is_ip_rel_memory_operand:
            name = self.image.got.get(call.ip_rel_memory_address)
            return name is None or self._by_name(name)
        return True

    def at(self, address: int) -> bool:
        """Whether a call, or a tail call, to ``address`` may return."""
        name = self.image.plt.get(address)
        if name is not None:
            return self._by_name(name)
        i = self._index.get(address)
        return True if i is None else self._span(i)

    def _by_name(self, name: str) -> bool:
        """Whether the function of this name may return: one of this image that is called by way of the PLT, or one of
        another.
        """
        i = self._named.get(name)
        return not named_noreturn(name) if i is None else self._span(i)

    def _span(self, i: int) -> bool:
        known = self._known.get(i)
        if known is None:
            self._known[i] = True  # the answer inside a cycle
            known = self._known[i] = self._infer(i)
        return known

    def _infer(self, i: int) -> bool:
        span = self.image.spans[i]
        if not _RESERVED.isdisjoint((span.name, *span.aliases)):
            return False
        if self.jumps.traits[i] & LEAVES or span.end == span.start:
            return True
        return any(self._leads_back(span, target) for _, target in self.jumps.out_of(span.start, span.end)) or (
            self._falls_out(span)
        )

    def _leads_back(self, span: FunctionSpan, target: int) -> bool:
        """Whether control may return after a jump to ``target``, out of a function without a return of its own."""
        owner = self.image.span_at(target)
        if owner is None:
            return self.at(target)
        return self._span(self._index[owner.start])

    def _falls_out(self, span: FunctionSpan) -> bool:
        """Whether the last instruction lets control run into the code that follows. A call there does not return."""
        code = self.image.read(span.start, span.end - span.start)
        last = x86.decode(code, span.start)[-1]
        return last.flow_control in (x86.NEXT, x86.BRANCH) and not x86.stops(last) and not x86.is_nop(last)
