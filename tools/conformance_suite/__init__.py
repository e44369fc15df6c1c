# SPDX-License-Identifier: LGPL-2.1-or-later
"""DTrace's own tests, run against `gilk dtrace`: see docs/conformance.md."""
