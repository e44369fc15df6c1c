# SPDX-License-Identifier: LGPL-2.1-or-later
"""Functions that must be left alone although they are not on the kernel's own blacklist.

They are functions that patching uses, functions on a trap's way to gilk's handler, and assembly that is entered, left
or copied in ways that its bytes do not show. They are listed by name, since nothing else identifies them; the names are
Linux's own.
"""

from __future__ import annotations

import re
from typing import Final

#: The module that carries gilk's own code in the kernel.
DRIVER: Final = "ilk"

_PATCHING: Final = r"""
    (__)?text_poke\w* poke_int3_\w+ do_sync_core sync_core_\w+ patch_(map|unmap)\w* (un)?use_temporary_mm
    smp_call_function_many_cond on_each_cpu_cond_mask flush_tlb_mm_range flush_tlb_func
    (native_)?flush_tlb_(one_user|multi|others)\w*
    """
_TRAPS: Final = r"""
    notify_die (atomic_)?notifier_call_chain\w* ftrace_int3_handler kprobe_\w*handler kprobe_exceptions_notify
    fixup_bug handle_bug report_bug find_bug is_valid_bugaddr search_(bpf_|module_)?extable\w* fixup_exception
    ex_handler_\w+ ex_get_fixup_type
    """
_ASSEMBLY: Final = r"""
    __switch_to_asm __switch_to ret_from_fork\w* schedule_tail_wrapper __fentry__ ftrace_(regs_)?(caller|call)\w*
    ftrace_(stub|epilogue|graph_call|caller_\w+|regs_caller_\w+) ftrace_graph_caller return_to_handler
    arch_rethook_trampoline __kretprobe_trampoline optprobe_template_\w+ paravirt_\w*nop _paravirt_\w+
    (__)?startup_64\w* secondary_startup_64\w* __startup_secondary_64 verify_cpu sev_verify_cbit start_cpu0
    early_idt_handler\w* vc_(boot|no)_ghcb pvh_start_xen xen_\w*hypercall\w* hypercall_page xen_(iret|sysret64)\w*
    xen_asm_\w+ xen_(irq_\w+_direct|save_fl_direct|read_cr[23]\w*) check_events
    relocate_kernel identity_mapped virtual_mapped swap_pages
    (do_suspend_lowlevel|wakeup_long64|wakeup_start|restore_(image|registers)|core_restore_code|swsusp_arch_suspend)
    (__)?efi(64)?_(call|thunk)\w* sme_encrypt_execute __enc_copy (__)?(vmx|svm)_\w*vcpu_run vmx_vmenter
    __sev_es_\w+ vmread_error_trampoline rewind_stack_and_make_dead clear_bhb_loop write_ibpb
    entry_(SYS\w+|ibpb|untrain_ret)
    asm_\w+ trampoline_\w+ tramp_\w+ __memcpy_mcsafe native_machine_crash_shutdown machine_real_restart
    """
_DENIED: Final = re.compile("|".join(f"(?:{name})" for name in (_PATCHING + _TRAPS + _ASSEMBLY).split()))


def is_denied(names: tuple[str, ...], owner: str) -> bool:
    """Whether a function of any of these names must not be touched. ``owner`` is its module, '' for the kernel."""
    return owner == DRIVER or any(_DENIED.fullmatch(name) for name in names)
