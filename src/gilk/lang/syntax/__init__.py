# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts that all languages share: texts, places in them, and diagnostics."""
