# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel as a target: links that reach it (`link`), its image (`image`), and the client of its driver
(`driver`)."""
