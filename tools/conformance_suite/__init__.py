# SPDX-License-Identifier: LGPL-2.1-or-later
"""Run DTrace's own tests against `gilk dtrace`; docs/conformance.md describes it."""
