# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of scans: functions, blocks and points of a program or kernel, and the tactic by which each point can be
spliced."""
