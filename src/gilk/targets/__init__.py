# SPDX-License-Identifier: LGPL-2.1-or-later
"""Live targets: the only code that reads, stops or changes a process or a kernel.

``base`` has the protocols that sessions use, and a checklist to add a target. A process has two sides, each a process
of its own: the client's (``process``, ``workspace``) and the keeper's (``server``, ``keeper``, ``changing``), with
``wire`` between them. The keeper reaches the target through ``traced`` and ``linux``. :mod:`gilk.targets.kernel`
reaches kernels.
"""
