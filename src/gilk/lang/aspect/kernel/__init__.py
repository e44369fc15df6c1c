# SPDX-License-Identifier: LGPL-2.1-or-later
"""Elements of aspects in the kernel: which C they may have, and the C of the module that they become."""
