# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printers from lang/ir.py to machine code for the kernel. The code has few forms of instructions, so that the
driver can prove what it may do.
"""
