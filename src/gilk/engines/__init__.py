# SPDX-License-Identifier: LGPL-2.1-or-later
"""Front ends of sessions: D programs, traces of calls, scans."""
