# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engines: each runs sessions for one purpose: D programs, aspects, traces of calls, questions, scans."""
