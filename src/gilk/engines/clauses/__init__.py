# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of a run's instruments that need clauses of D."""
