# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions that a file describes: workloads, instruments, and when each instrument comes and goes."""
