# SPDX-License-Identifier: LGPL-2.1-or-later
"""From lang/ir.py to C that calls native/runtime/d: expressions, functions, and places in code that call them."""
