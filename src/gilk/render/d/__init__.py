# SPDX-License-Identifier: LGPL-2.1-or-later
"""The output of dtrace(1), byte for byte as DTrace 2.0 for Linux prints it. The modules turn values into bytes, and do
no input or output.
"""
