# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debug information, read as little of it as will do: types, variables and parameters by name (DWARF 2 to 5)."""
