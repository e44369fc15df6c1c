# SPDX-License-Identifier: LGPL-2.1-or-later
"""From what a D program says to what it means: names, types and what a clause leaves behind are settled."""
