# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of aspects: for each function or variable of a program that aspects advise, the code that runs at its calls or
accesses.
"""
