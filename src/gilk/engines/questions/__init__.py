# SPDX-License-Identifier: LGPL-2.1-or-later
"""Questions of which each is a D program, and the answers as values: a question a file."""
