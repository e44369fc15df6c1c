# SPDX-License-Identifier: LGPL-2.1-or-later
"""From lang/ir.py to machine code for the kernel: of few forms, so that the driver can prove what it may do."""
