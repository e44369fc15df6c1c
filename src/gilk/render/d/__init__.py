# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of dtrace(1), byte for byte as DTrace 2.0 for Linux prints it. Values in, bytes out; no input or
output."""
