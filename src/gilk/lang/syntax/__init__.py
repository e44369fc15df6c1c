# SPDX-License-Identifier: LGPL-2.1-or-later
"""The common parts of languages: texts, places in them, and diagnostics about them."""
