# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of traces: it follows all calls of a process from one event to another, with every function made ready
beforehand."""
