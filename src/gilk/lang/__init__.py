# SPDX-License-Identifier: LGPL-2.1-or-later
"""The typed form of programs between languages and C, and the languages themselves; without input or output."""
