# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the texts of D programs to the typed tree: one module a pass, in the order of order.py."""
