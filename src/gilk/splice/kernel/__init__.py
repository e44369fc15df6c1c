# SPDX-License-Identifier: LGPL-2.1-or-later
"""Splices in a kernel: the planner's entries at ftrace's nops, instruments, and the units that the driver applies."""
