# SPDX-License-Identifier: LGPL-2.1-or-later
"""Experiments: runs that a file describes, with a workload, instruments, and when each instrument comes and goes."""
