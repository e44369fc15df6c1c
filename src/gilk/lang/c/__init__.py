# SPDX-License-Identifier: LGPL-2.1-or-later
"""Instruments and advice that users write in C: the C that is put around them."""
