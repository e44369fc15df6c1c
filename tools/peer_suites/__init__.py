# SPDX-License-Identifier: LGPL-2.1-or-later
"""The parts of tools/peers, which runs other projects' test programs under gilk. docs/peers.md is their manual."""
