# SPDX-License-Identifier: LGPL-2.1-or-later
"""DTrace's language, from text to C and code for the kernel. The package does no input or output."""
