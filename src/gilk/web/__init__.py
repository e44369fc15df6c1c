# SPDX-License-Identifier: LGPL-2.1-or-later
"""The window: a local web application that shows and does what the command line does.

The server holds no target. Sessions live in a child each (host.py), what takes long is done by workers (worker.py).
guard.py says who may speak to it.
"""
