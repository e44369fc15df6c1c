# SPDX-License-Identifier: LGPL-2.1-or-later
"""The consumer's side of the memory that D clauses work on. native/abi/gilk_d.h is the protocol."""
