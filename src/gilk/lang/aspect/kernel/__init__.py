# SPDX-License-Identifier: LGPL-2.1-or-later
"""Elements of aspects in the kernel: the C that they may contain, and the C of the module that is made of them."""
