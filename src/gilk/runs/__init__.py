# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs: sessions of processes and of the kernel at once, and what is kept of them; strategies and experiments."""
