# SPDX-License-Identifier: LGPL-2.1-or-later
"""The meaning of a D program: its passes use these modules to find the names, the types and the records of clauses."""
