# SPDX-License-Identifier: LGPL-2.1-or-later
"""From wanted points to a plan of splices, with the bytes of their patches. Pure: it reads images and computes bytes.

``points`` finds addresses, ``segments`` cuts blocks into what can be moved as a whole, ``choice``
picks a tactic, ``planner`` plans a function, ``emit`` and ``relocate`` make a patch, ``instrument``
the code that a probe runs, and ``policy`` says what a kind of target allows. ``capture``,
``portable`` and ``claims`` keep plans that fit any address.
"""
