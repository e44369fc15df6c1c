# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects, which say when advice runs in processes and the kernel: from their text to automata and C. The package does
no input or output.
"""
