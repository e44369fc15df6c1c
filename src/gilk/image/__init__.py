# SPDX-License-Identifier: LGPL-2.1-or-later
"""ELF files, and what their tables say, read into an immutable ``Image``; and the caches of what was found in them."""
