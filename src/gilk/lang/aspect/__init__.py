# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: when something is to happen in processes and the kernel, and what; pure, from text to automata."""
