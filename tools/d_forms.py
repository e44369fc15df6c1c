#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Write native/abi/ilk_d_forms.h anew from lang/to_kernel."""

from pathlib import Path

from gilk.lang.to_kernel.header import header

if __name__ == "__main__":
    (Path(__file__).parents[1] / "src/gilk/native/abi/ilk_d_forms.h").write_text(header())
