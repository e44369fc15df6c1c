# SPDX-License-Identifier: LGPL-2.1-or-later
"""One session of a process that several consumers have a part in."""
