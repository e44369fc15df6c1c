# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs while they are written: texts that are unfinished, and what may come next in them."""
