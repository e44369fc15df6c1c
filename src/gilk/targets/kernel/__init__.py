# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel as a target: how it is reached (`link`), what is in it (`image`), and its driver (`driver`)."""
