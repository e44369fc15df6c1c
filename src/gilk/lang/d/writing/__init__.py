# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs while they are written: unfinished texts, and words that may come next in them."""
