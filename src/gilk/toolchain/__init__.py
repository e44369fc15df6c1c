# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the compiler and the linker for the runtime, instruments, D programs and kernel modules, and caches the products
by content."""
