# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects as C: one function in place of each function of a program that they are about."""
