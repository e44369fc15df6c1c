# SPDX-License-Identifier: LGPL-2.1-or-later
"""The engine of D programs: it compiles them, enables their probes, carries out their actions and yields events."""
