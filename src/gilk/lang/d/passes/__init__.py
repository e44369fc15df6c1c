# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes from the texts of D programs to the typed tree: one module for each pass; order.py has their order."""
