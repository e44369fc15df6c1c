# SPDX-License-Identifier: LGPL-2.1-or-later
"""From a checked D program to C, which calls native/runtime/d."""
