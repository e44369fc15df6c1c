# SPDX-License-Identifier: LGPL-2.1-or-later
"""Results as text, JSON, HTML and SVG. It reads results and changes nothing."""
