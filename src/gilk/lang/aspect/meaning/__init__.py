# SPDX-License-Identifier: LGPL-2.1-or-later
"""The passes that turn the tree of a file of aspects into its checked form; order.py has their order."""
