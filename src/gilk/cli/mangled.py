# SPDX-License-Identifier: LGPL-2.1-or-later
"""The option ``--mangled``, which all commands have that show names of functions."""

from __future__ import annotations

import click


def _chosen(_ctx: click.Context, _option: click.Parameter, mangled: bool) -> None:
    if mangled:
        from gilk.render.names import show_mangled  # here: --help need not wait for it

        show_mangled(True)


mangled_option = click.option(
    "--mangled", is_flag=True, expose_value=False, callback=_chosen,
    help="Show names of C++ and Rust as the linker has them.",
)  # fmt: skip
