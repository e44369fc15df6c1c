// SPDX-License-Identifier: LGPL-2.1-or-later
// A flame graph of counts by stacks: callers below, callees above them, each box as wide as its count.

import { h, number, roomWide, s } from "./dom.js";

const [ROW, NARROWEST, LETTER] = [18, 1, 6.7]; // pixels
const DEEPEST = 64;

// The flame graph of `counts`, which are [frames, count] with the outermost frame first; null if all are zero.
export function flame(name, counts) {
  const root = { name: "all", count: 0, inner: new Map() };
  for (const [frames, count] of counts) grow(root, frames, count);
  if (!root.count) return null;
  const boxes = [];
  const whole = roomWide();
  const depth = draw(root, 0, whole, 0, boxes);
  const height = (depth + 1) * ROW;
  const label = `Flame graph of @${name}: callers below, as wide as they count`;
  return h("div", { class: "heatmap flame", "data-of": `flame of ${name}`, tabindex: 0, role: "region", "aria-label": label },
    s("svg", { width: whole, height, role: "img", "aria-label": `${label}; the table below has the counts` },
      boxes.map(([frame, x, width, row]) => s("g", null,
        s("rect", { class: `shade${2 + (row % 3)}`, x, y: height - (row + 1) * ROW, width: Math.max(NARROWEST, width - 1), height: ROW - 1 }),
        s("title", null, `${frame.name}: ${number(frame.count)}, ${((100 * frame.count) / root.count).toFixed(1)} %`),
        width > 4 * LETTER ? s("text", { x: x + 3, y: height - row * ROW - 6 }, fitting(frame.name, width)) : null))));
}

function grow(root, frames, count) {
  let at = root;
  at.count += count;
  for (const name of frames.slice(0, DEEPEST)) {
    if (!at.inner.has(name)) at.inner.set(name, { name, count: 0, inner: new Map() });
    at = at.inner.get(name);
    at.count += count;
  }
}

// Add the boxes of a frame and of its callees to `boxes`; returns the highest row.
function draw(frame, x, width, row, boxes) {
  boxes.push([frame, x, width, row]);
  let [left, highest] = [x, row];
  for (const inner of [...frame.inner.values()].sort((one, other) => (one.name < other.name ? -1 : 1))) {
    const wide = (width * inner.count) / frame.count;
    if (wide >= NARROWEST) highest = Math.max(highest, draw(inner, left, wide, row + 1, boxes));
    left += wide;
  }
  return highest;
}

function fitting(name, width) {
  const room = Math.floor((width - 6) / LETTER);
  return name.length <= room ? name : `${name.slice(0, Math.max(1, room - 1))}…`;
}
