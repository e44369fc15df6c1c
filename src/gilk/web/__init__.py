# SPDX-License-Identifier: LGPL-2.1-or-later
"""The window: a local web application that shows and does what the command line does.

The server itself touches no target. Each session lives in a child process (host.py), and work that takes long is done
by workers (worker.py). guard.py says who may speak to the server.
"""
