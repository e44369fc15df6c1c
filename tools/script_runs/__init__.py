# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run the scripts of a collection with `gilk dtrace`; docs/scripts.md describes it."""
