# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads ELF files and their tables into an immutable ``Image``, and keeps findings about them between runs."""
