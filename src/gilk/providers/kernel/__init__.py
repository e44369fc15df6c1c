# SPDX-License-Identifier: LGPL-2.1-or-later
"""Providers of D's probes in a kernel, a file each."""
