# SPDX-License-Identifier: LGPL-2.1-or-later
"""The printers from lang/ir.py to C that calls native/runtime/d: for expressions, functions, and the places whose
patches call them.
"""
