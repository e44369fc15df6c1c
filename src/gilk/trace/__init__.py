# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes samples, calls and traces of the records of a target: reads them from shared memory, keeps them in files, and
compares them.

``layout``, ``live``, ``drain``, ``kernel_drain`` and ``gates`` read and write the memory that a target shares with
gilk; ``samples``, ``calls`` and ``series`` make tables of records; ``store``, ``reading``, ``about`` and ``traced`` are
the file; ``flow`` and the modules around it (``flow_build``, ``nesting``, ``halves``, ``evidence``) make a tree of the
calls of each thread; ``paths``, ``align``, ``compare`` and ``anomalies`` answer questions about such trees.
"""
