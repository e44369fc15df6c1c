# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads a running kernel into an ``Image``: its symbols, live text, BTF, and tables that name single instructions."""
