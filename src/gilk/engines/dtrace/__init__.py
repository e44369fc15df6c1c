# SPDX-License-Identifier: LGPL-2.1-or-later
"""D programs at work: compiled, enabled, drained."""
