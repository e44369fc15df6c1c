# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: files of aspects are checked and explained, and woven into processes and kernels."""
