# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sessions: from the points that a user names to probes in one or more targets, and to the records that they make."""
