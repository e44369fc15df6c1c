# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns results into text, JSON, HTML and SVG. It reads results and changes nothing."""
