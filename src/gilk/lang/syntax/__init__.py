# SPDX-License-Identifier: LGPL-2.1-or-later
"""What languages have in common: text, places in it, and what is said about them."""
