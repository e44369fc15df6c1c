# SPDX-License-Identifier: LGPL-2.1-or-later
"""Questions to a process, one per file: each is a D program, and its answer is a value."""
