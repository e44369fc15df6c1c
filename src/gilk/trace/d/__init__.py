# SPDX-License-Identifier: LGPL-2.1-or-later
"""The consumer's side of the memory that D clauses work on, and the events that become of it. native/abi/gilk_d.h is
the protocol.
"""
