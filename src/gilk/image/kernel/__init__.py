# SPDX-License-Identifier: LGPL-2.1-or-later
"""A running kernel read into an ``Image``: its symbols, live text, BTF, and tables that name single instructions."""
