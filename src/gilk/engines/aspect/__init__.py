# SPDX-License-Identifier: LGPL-2.1-or-later
"""Aspects: files of them checked and explained."""
