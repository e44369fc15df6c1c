# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments that users write in C: the C that is put around them."""
