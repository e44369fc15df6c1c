# SPDX-License-Identifier: LGPL-2.1-or-later
"""What dtrace(1) prints, byte for byte as DTrace 2.0 for Linux does. Values in, bytes out; no input or output."""
