# SPDX-License-Identifier: LGPL-2.1-or-later
"""The x86-64 processor: decoding, effects of instructions on registers and flags, encoders, features."""
