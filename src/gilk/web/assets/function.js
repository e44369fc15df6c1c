// SPDX-License-Identifier: LGPL-2.1-or-later
// One function: its blocks as a graph. The strip at the top of a block is the point before it, the one at the bottom the
// point after it; both are buttons. Blocks that are being counted have their hits in words and as a colour.

import { dropped, h, helpAbout, number, patch, plural, s, short, show } from "./dom.js";
import { command, notice } from "./frame.js";
import { chosen, sessionsOf, toggle, whenChosen } from "./pane.js";
import { sourceOf } from "./source.js";
import { follow, get } from "./talk.js";

const INSTRUMENTS = ["count", "stamp", "args", "regs"];
const STRATEGIES = [["path", "path: the time before every block"], ["calls", "calls: the time before every call"],
  ["edges", "edges: how often each edge is taken"], ["coverage", "coverage: which blocks are reached; each is watched until its first hit"]];
const STEP = 1.25;
const EVERY_BLOCK = ["path", "edges", "coverage"]; // the strategies with a point before every block
const ZOOMS = [0.1, 3];
const HEATS = 6;

export async function func(place, id) {
  const asked = new URLSearchParams(location.search);
  const image = asked.get("image") ?? "";
  const words = new URLSearchParams({ at: asked.get("at") ?? asked.get("name") ?? "" });
  if (image) words.set("image", image);
  const found = await get(`/target/${id}/function.json?${words}`);
  const name = found.point;
  const instrument = h("select", { id: "instrument" }, INSTRUMENTS.map((each) => h("option", { value: each }, each)));
  const strategy = h("select", { id: "strategy" }, STRATEGIES.map(([each, text]) => h("option", { value: each }, text)));
  const pick = (where, what) => toggle(id, `${name}:${where}=${what ?? instrument.value}`);
  const graph = drawn(found, (where) => pick(where), (edge) => notice(`${edge} has no point of its own: both its blocks have other edges. `
    + "The strategy edges counts it."));
  const scroll = h("div", { class: "graph", tabindex: 0, role: "region", "aria-label": "Blocks of the function" }, graph.svg);
  const text = sourceOf(id, new URLSearchParams([...words, ...(asked.has("source") ? [["source", asked.get("source")]] : [])]), found,
    (block) => graph.show(block));
  graph.svg.addEventListener("focusin", (event) => linked(event));
  // Only a pointer that moves: one that rests may have a block scrolled under it.
  graph.svg.addEventListener("pointermove", (event) => {
    if (event.movementX || event.movementY) linked(event);
  });
  let last = null;
  const live = h("p", { class: "key live" }, "The registers that are live at the head of the block at the pointer, or with the focus, are told here.");
  const linked = (event) => {
    const block = event.target.closest("[data-block]");
    if (block && block !== last) {
      text.mark(Number(block.dataset.block));
      show(live, h("span", null, liveAt(found.blocks.find((one) => one.index === Number(block.dataset.block)))));
    }
    last = block ?? last;
  };
  let zoom = fitting(found.layout.width);

  function scaled() {
    graph.svg.setAttribute("width", Math.round(found.layout.width * zoom));
    graph.svg.setAttribute("height", Math.round(found.layout.height * zoom));
  }
  const nearer = (factor) => () => {
    zoom = Math.min(ZOOMS[1], Math.max(ZOOMS[0], zoom * factor));
    scaled();
  };
  scaled();
  const marked = () => graph.mark(chosen(id), name);
  marked();

  show(place,
    h("h1", null, found.shown),
    h("p", null, `${found.image}, ${found.at}, ${plural(found.size, "byte")}, ${plural(found.blocks.length, "block")}. `,
      h("a", { href: `/target/${id}/symbols${image ? `?image=${encodeURIComponent(image)}` : ""}` }, "All functions of the image")),
    h("p", { class: "acts" },
      h("button", { onclick: () => pick("entry", "count") }, "Count calls"),
      h("button", { onclick: () => pick("entry", "time") }, "Time calls"),
      h("button", { onclick: () => pick("blocks", "count") }, "Count every block")),
    h("p", { class: "field" }, h("label", { for: "instrument" }, "A click on the upper or lower strip of a block picks that point for"), instrument,
      h("a", { href: "/help/cli/scan" }, "What jump, pun and the like mean")),
    h("p", { class: "field" }, h("label", { for: "strategy" }, "A strategy chooses the points:"), strategy,
      h("button", { onclick: () => toggle(id, `${name}=@${strategy.value}`) }, "Use it")),
    h("p", { class: "acts" },
      h("button", { onclick: nearer(1 / STEP), "aria-label": "Smaller" }, "−"),
      h("button", { onclick: nearer(STEP), "aria-label": "Larger" }, "+"),
      h("span", { class: "key" }, "edges: ", h("span", { class: "taken" }, "taken"), ", ", h("span", { class: "not-taken" }, "not taken"),
        ", dashed: back to an earlier block. Colour of a counted block: each step is half as many hits.")),
    live, legend(found.reasons),
    graph.status, h("div", { class: "beside" }, scroll, text.place), command(found.command));
  // The first block is in the middle until the reader moves the graph; the graph gets narrower when the source has come.
  const first = found.layout.boxes[0][0] + found.layout.boxes[0][2] / 2;
  const sized = new ResizeObserver(() => {
    scroll.scrollLeft = Math.max(0, first * zoom - scroll.clientWidth / 2);
  });
  sized.observe(scroll);
  for (const what of ["wheel", "pointerdown", "keydown"]) scroll.addEventListener(what, () => sized.disconnect(), { once: true, passive: true });
  const wanted = blockAt(found, asked.get("on"));
  if (wanted) {
    sized.disconnect();
    graph.show(wanted.index);
  }
  const still = whenChosen(marked);
  const watched = await watch(id, found, graph, text);
  return () => {
    sized.disconnect();
    still();
    watched();
  };
}

// The block with the instruction at an address, which is text; undefined if there is none.
function blockAt(found, address) {
  return address ? found.blocks.find((block) => block.instructions.some((one) => one.address === Number(address))) : undefined;
}

// The registers and flags that are live at the head of a block.
function liveAt(block) {
  return `Live at the head of @${block.index}: ${block.live.join(" ") || "nothing"}.`;
}

// The scale of the graph: 1 if it fits, else as small as it must be to fit, but not too small to be read.
function fitting(width) {
  const room = document.documentElement.clientWidth - 64;
  return width <= room ? 1 : Math.max(0.7, room / width);
}

function legend(reasons) {
  const rows = Object.entries(reasons);
  if (!rows.length) return null;
  return h("details", { class: "hint" }, h("summary", null, "Why some points are refused"),
    h("dl", null, rows.map(([name, text]) => [h("dt", null, h("a", { href: helpAbout(name, "refusals") }, name)), h("dd", null, text)])));
}

function drawn(found, picked, untold) {
  const { layout } = found;
  const svg = s("svg", { viewBox: `0 0 ${layout.width} ${layout.height}`, "aria-label": `${plural(found.blocks.length, "block")} of ${found.shown}`, role: "group" },
    s("defs", null, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { d: "M0 0 8 4 0 8z" }))));
  const ends = (key, block) => layout.routes.filter((route) => route[key] === block).length;
  const edges = layout.routes.map((route) => {
    const path = s("path", { class: `edge ${route.kind}${route.back ? " back" : ""}`, "marker-end": "url(#head)",
      d: `M${route.points.map(([x, y]) => `${x} ${y}`).join(" ")}` });
    const [[x, y]] = route.points;
    const text = s("text", { class: "hits taken-count", x: x + 4, y: y + 14 });
    // Where it is the only way out of a block or into one, the block's point is that of the edge, and has the number.
    const [from, to] = [found.blocks[route.from], found.blocks[route.to]];
    const name = `@${from.index}->@${to.index}`;
    const point = ends("to", route.to) === 1 && route.to ? `@${to.index}:pre` : ends("from", route.from) === 1 ? `@${from.index}:post` : null;
    const title = s("title", null, point ? `${name}: a click picks ${point}` : name);
    const wide = s("path", { class: "wide-edge", d: path.getAttribute("d"), onclick: () => (point ? picked(point) : untold(name)) }, title);
    svg.append(path, wide, text);
    return { path, text, title, isAlone: point !== null, name };
  });
  const strips = new Map();
  const boxes = found.blocks.map((block, number_) => {
    const [x, y, width, height] = layout.boxes[number_];
    const rect = s("rect", { class: "block", x, y, width, height });
    const hits = s("text", { class: "hits", x: x + width - 8, y: y + 13, "text-anchor": "end" });
    const group = s("g", { "data-block": block.index }, rect,
      layout.texts[number_].map((text, line) =>
        s("text", { x: x + 8, y: y + layout.edge + layout.line * line + 13 }, text)),
      strip(found, block, "pre", x, y, width, layout.edge, strips, picked),
      strip(found, block, "post", x, y + height - layout.edge, width, layout.edge, strips, picked), hits);
    svg.append(group);
    return { group, hits };
  });
  const status = h("p", { role: "status", class: "counted" });
  return {
    svg, status,
    // Bring a block into view, and give it the focus.
    show(index) {
      const element = strips.get(`@${index}:pre`);
      element.scrollIntoView({ block: "center", inline: "center" });
      element.focus({ preventScroll: true });
    },
    mark(requests, name) {
      for (const [where, element] of strips) {
        const on = requests.some((each) => each.startsWith(`${name}:${where}=`)
          || (where.endsWith(":pre") && (each.startsWith(`${name}:blocks=`) || EVERY_BLOCK.some((one) => each === `${name}=@${one}`))));
        element.classList.toggle("chosen", on);
        element.setAttribute("aria-pressed", on);
      }
    },
    // Show how often each edge was taken, as a number and as thickness; "?" where the counts of blocks do not tell.
    taken(label, counts) {
      const known = Object.values(counts).filter((count) => count !== null);
      const most = Math.max(1, ...known);
      for (const { path, text, title, isAlone, name } of edges) {
        const count = counts[`${label}:${name}`];
        path.style.strokeWidth = count ? `${1.3 + 3 * Math.log1p(count) / Math.log1p(most)}` : "";
        const told = count === undefined ? "" : count === null ? "?" : short(count);
        text.textContent = isAlone ? "" : told;
        if (told) title.textContent = `${name}: ${count === null ? "it cannot be told how often it is taken" : `taken ${number(count)} times`}`;
      }
    },
    heat(counts) {
      const most = Math.max(1, ...counts.filter((each) => each !== undefined));
      counts.forEach((count, index) => {
        const { group, hits } = boxes[index];
        const level = count ? Math.max(1, HEATS - Math.floor(Math.log2(most / count))) : 0;
        group.setAttribute("class", count === undefined ? "" : `heat${level}`);
        hits.textContent = count === undefined ? "" : short(count);
      });
    },
  };
}

function strip(found, block, side, x, y, width, height, strips, picked) {
  const point = block.points[side];
  const where = `@${block.index}:${side}`;
  const word = point.tactic ?? `refused: ${point.refused}`;
  const act = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (point.refused) notice(`${where} is refused: ${point.refused}: ${found.reasons[point.refused]}. ${nearest(found, block, side)}`);
    else picked(where);
  };
  const pad = block.landing_pad && side === "pre" ? "  landing pad" : "";
  const element = s("g", { class: point.refused ? "point refused" : "point", role: "button", tabindex: 0,
    "aria-label": `${where}, ${word}`, "aria-pressed": "false", onclick: act, onkeydown: act },
  s("rect", { x: x + 1, y: y + 1, width: width - 2, height: height - 2 }),
  s("text", { x: x + 8, y: y + 13 }, `${where}  ${word}${pad}`));
  strips.set(where, element);
  return element;
}

function nearest(found, block, side) {
  const other = side === "pre" ? "post" : "pre";
  if (block.points[other].tactic) return `@${block.index}:${other} would do.`;
  const next = found.edges.filter((edge) => edge.from === block.index).map((edge) => found.blocks[edge.to])
    .find((each) => each.points.pre.tactic);
  return next ? `@${next.index}:pre would do, if only this block leads there.` : "";
}

// Follow the first session of this target that counts blocks of this function, and show its counts. Returns the end of that.
async function watch(id, found, graph, text) {
  const sessions = (await sessionsOf(id)).filter((each) => !each.aggregations && each.requests.some((request) => request.includes(`${found.function}:`) || request.includes(`${found.function}=@`)));
  if (!sessions.length) return () => undefined;
  return follow(sessions[0].number, (state) => {
    const counts = found.blocks.map((block) => {
      const entry = block.index === 0 ? state.counts?.[`${found.label}:entry`] : undefined;
      return state.counts?.[`${found.label}:@${block.index}:pre`] ?? entry;
    });
    graph.heat(counts);
    graph.taken(found.label, state.stages?.edges ?? {});
    text.heat(counts);
    patch(graph.status, [
      h("a", { href: `/session/${state.number}` }, `Session ${state.number}`),
      h("span", null, ` ${state.end ? `is over: ${state.end}` : "goes on"}: ${number(state.hits ?? 0)} hits, `, dropped(state.drops ?? 0, state.records), " records dropped."),
      Object.keys(state.stages?.edges ?? {}).length ? h("span", null, " An edge is the thicker the more often it is taken.") : null]);
  });
}
