# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ways to lead control from code to a patch, a file each, and the table of the order in which they are tried."""
