# SPDX-License-Identifier: LGPL-2.1-or-later
"""A trace as a flame graph: one SVG, in which the calls of one path are a bar, as wide as the time they took together.

Callers are below their callees. A click makes a bar as wide as the picture; a click on the lowest bar shows all again.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

from gilk.render.source_place import LinesOf, no_lines
from gilk.render.text import cell, nanoseconds, plural
from gilk.trace.flow import KERNEL, Flow
from gilk.trace.paths import Paths, label, of_flow
from gilk.values import dataclass

FLAME_WIDTH = 1200  # in pixels
_ROW, _MARGIN = 17, 10
_LETTER = 6.7  # in pixels
NARROWEST = 0.1  # in pixels; narrower bars are left out
DEEPEST = 2000

_STYLE = """text{font:11px ui-monospace,monospace;pointer-events:none}rect{stroke:#fff;stroke-width:.4}
g:hover rect{stroke:#000;stroke-width:1}g.f{cursor:pointer}g.dim{opacity:.35}"""
_SCRIPT = """const bars=[...document.querySelectorAll("g.f")].map(g=>({g,
r:g.querySelector("rect"),t:g.querySelector("text"),x:+g.dataset.x,w:+g.dataset.w,d:+g.dataset.d,n:g.dataset.n}));
function show(b){const k=W/b.w;for(const o of bars){const under=o.d<b.d&&o.x<=b.x+1e-6&&o.x+o.w>=b.x+b.w-1e-6;
const inside=o.d>=b.d&&o.x>=b.x-1e-6&&o.x+o.w<=b.x+b.w+1e-6;o.g.style.display=under||inside?"":"none";
o.g.classList.toggle("dim",under);const x=under?M:M+(o.x-b.x)*k,w=under?W:o.w*k;o.r.setAttribute("x",x);
o.r.setAttribute("width",w);o.t.setAttribute("x",Math.max(x,M)+3);const c=Math.floor((w-6)/L);
o.t.textContent=c<3?"":o.n.length<=c?o.n:o.n.slice(0,c-1)+"\\u2026"}}
for(const b of bars)b.g.addEventListener("click",()=>show(b));"""


@dataclass(frozen=True, slots=True)
class FlameBar:
    """A bar. ``depth`` counts from 0, for bars right above the lowest; ``x`` and ``width`` are in pixels. ``told`` is
    shown under the pointer.
    """

    depth: int
    x: float
    width: float
    text: str
    colour: str
    told: str


def flame(flow: Flow, title: str, lines: LinesOf = no_lines) -> str:
    """The SVG of a trace. Its lowest bar stands for everything. ``lines`` are shown under the pointer."""
    paths = of_flow(flow)
    total = max(sum(int(paths.total[root]) for root in paths.roots), 1)
    bars = [_of_path(paths, total, lines, *bar) for bar in _bars(paths, total)]
    return picture(title, f"all, {nanoseconds(total)}", bars)


def _of_path(paths: Paths, total: int, lines: LinesOf, path: int, depth: int, x: float, width: float) -> FlameBar:
    name, image, lane = paths.symbols[int(paths.symbol[path])]
    line = lines(name, image)
    place = f" ({line})" if line else ""
    share = f"{100 * int(paths.total[path]) / total:.3g} %"
    told = f"{image}{place}: {plural(int(paths.calls[path]), 'call')}, {nanoseconds(paths.total[path])} ({share})"
    told += f", {nanoseconds(paths.own[path])} in itself"
    return FlameBar(depth, x, width, label((name, image, lane)), colour_of(name, image, lane), told)


def picture(title: str, lowest: str, bars: Sequence[FlameBar]) -> str:
    """The SVG of any bars, above one as wide as all of them with the text ``lowest``."""
    rows = max((bar.depth for bar in bars), default=0) + 2
    height = rows * _ROW + 50
    drawn = [_bar(_MARGIN, 0, FLAME_WIDTH, lowest, "#d9d9d4", height, "")]
    drawn += [_bar(_MARGIN + b.x, b.depth + 1, b.width, b.text, b.colour, height, b.told) for b in bars]
    constants = f"const W={FLAME_WIDTH},M={_MARGIN},L={_LETTER};"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{FLAME_WIDTH + 2 * _MARGIN}" height="{height}" '
    head += f'viewBox="0 0 {FLAME_WIDTH + 2 * _MARGIN} {height}"><style>{_STYLE}</style>'
    head += '<rect width="100%" height="100%" fill="#fcfcfa"/>'
    head += f'<text x="{_MARGIN}" y="20">{escape(cell(title), False)}</text>'
    return head + "".join(drawn) + f"<script><![CDATA[{constants}{_SCRIPT}]]></script></svg>\n"


def _bars(paths: Paths, total: int) -> list[tuple[int, int, float, float]]:
    """The bars that are wide enough to be seen, as (path, depth, x, width)."""
    scale = FLAME_WIDTH / total
    found: list[tuple[int, int, float, float]] = []
    waiting = [(paths.roots, 0, 0.0)]
    while waiting:
        siblings, depth, x = waiting.pop()
        for path in siblings:
            width = int(paths.total[path]) * scale
            if width >= NARROWEST and depth < DEEPEST:
                found.append((path, depth, x, width))
                waiting.append((paths.children[path], depth + 1, x))
            x += width
    return found


def _bar(x: float, depth: int, width: float, text: str, colour: str, height: int, told: str) -> str:
    y = height - _MARGIN - (depth + 1) * _ROW
    text = cell(text)
    letters = int((width - 6) / _LETTER)
    shown = "" if letters < 3 else text if len(text) <= letters else text[: letters - 1] + "…"
    data = f'data-x="{x - _MARGIN:.4f}" data-w="{width:.4f}" data-d="{depth}" data-n="{escape(text)}"'
    return (
        f'<g class="f" {data}><title>{escape(text, False)}\n{escape(cell(told), False)}</title>'
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 1}" rx="2" fill="{colour}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(shown, False)}</text></g>'
    )


def colour_of(name: str, image: str, lane: str = "") -> str:
    """The colour of a function: by image, and within it by function; functions of the kernel are red."""
    hue = 8 if lane == KERNEL else 40 + _hash(image) % 280
    return f"hsl({hue + _hash(name) % 24} 62% {66 + _hash(name + '/') % 14}%)"


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def to_json(flow: Flow) -> dict[str, Any]:
    """The numbers of paths, of ns and of bars in the picture."""
    paths = of_flow(flow)
    total = sum(int(paths.total[root]) for root in paths.roots)
    return {"paths": len(paths.parent), "total": total, "drawn": len(_bars(paths, max(total, 1)))}
