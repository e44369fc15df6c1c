# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments of runs that clauses of D carry out."""
