# SPDX-License-Identifier: LGPL-2.1-or-later
"""Parses the words in which users name points, functions, images, events and durations, alike in all commands."""
