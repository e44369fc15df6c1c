# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tracing all calls of a process from one event to another, with every function made ready beforehand."""
