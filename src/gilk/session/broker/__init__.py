# SPDX-License-Identifier: LGPL-2.1-or-later
"""The broker: a process that shares one session of a target among several consumers."""
