# SPDX-License-Identifier: LGPL-2.1-or-later
"""From the tree of a file of aspects to its checked form: passes, in the order that order.py gives."""
