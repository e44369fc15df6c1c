# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler and the linker at work: runtime, instruments, D programs and kernel modules, cached by their content."""
