# SPDX-License-Identifier: LGPL-2.1-or-later
"""The providers of D's probes in a kernel, one in each file."""
