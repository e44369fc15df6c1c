# SPDX-License-Identifier: LGPL-2.1-or-later
"""Control flow of machine code: functions, blocks, jump tables, calls that do not return, live registers. Nothing here
does input or output.
"""
