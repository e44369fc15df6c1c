# SPDX-License-Identifier: LGPL-2.1-or-later
"""DTrace's language, from text to C. Pure: it does no input or output."""
