/* SPDX-License-Identifier: LGPL-2.1-or-later
 * Drawing: a view is a stretch of time and how far down one has scrolled. Calls narrower than a pixel are drawn as the
 * pixel they are in, once, so the work depends on the size of the window and not on that of the trace. */
"use strict";

const RULER = 22, HEAD = 20, ROW = 17, GAP = 6, LETTER = 6.62;
const HUES = [212, 146, 42, 268, 180, 96, 316, 62, 236, 120];
const KERNEL_HUE = 12;
const OPEN = 2, BEFORE = 3, CUT = 4, LEFT = 1;

function hash(text) {
  let value = 2166136261;
  for (let n = 0; n < text.length; n++) value = Math.imul(value ^ text.charCodeAt(n), 16777619);
  return (value >>> 0) / 4294967296;
}

/** A colour per symbol: the hue is the image's, those with most time first; functions differ in lightness. */
function palette(trace, dark) {
  const hues = new Map();
  let next = 0;
  const spread = Math.max(18, 110 / trace.images.length); // functions of one image alone need telling apart as well
  for (const image of trace.images) {
    hues.set(image.name, image.lane ? KERNEL_HUE : HUES[next % HUES.length] + 14 * Math.floor(next / HUES.length));
    next += image.lane ? 0 : 1;
  }
  const fill = trace.symbols.map(([name, image]) => {
    const jitter = hash(name), base = dark ? 36 : 70;
    const hue = hues.get(image) + (image === "kernel" ? 18 : spread) * (hash(name + "'") - 0.5);
    return `hsl(${hue.toFixed(0)} ${dark ? 42 : 58}% ${(base + 13 * jitter).toFixed(1)}%)`;
  });
  return { hues, fill, image: (name) => `hsl(${hues.get(name)} ${dark ? 42 : 58}% ${dark ? 42 : 72}%)` };
}

class View {
  constructor(trace, canvas) {
    Object.assign(this, { trace, canvas, paint: canvas.getContext("2d"), top: 0, from: 0, to: trace.span });
    this.matching = null; // per track, lane and row the calls that were searched for
    this.chosen = -1;
    this.range = null; // two times that are being marked
  }

  resize() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.paint.setTransform(scale, 0, 0, scale, 0, 0);
  }

  x(time) { return ((time - this.from) / (this.to - this.from)) * this.width; }
  time(x) { return this.from + (x / this.width) * (this.to - this.from); }

  show(from, to) {
    const least = 20, most = this.trace.span * 1.04;
    let width = Math.min(Math.max(to - from, least), most);
    const middle = (from + to) / 2, margin = 0.02 * this.trace.span;
    from = Math.max(-margin, Math.min(middle - width / 2, this.trace.span + margin - width));
    this.from = from;
    this.to = from + width;
  }

  /** Where each thread's head and rows are: [{track, y, lanes: [y of user rows, y of kernel rows], bottom}]. */
  layout() {
    let y = RULER - this.top;
    const places = this.trace.tracks.map((track) => {
      const top = y, lanes = [y + HEAD, y + HEAD + track.rows[0].length * ROW];
      if (track.rows[0].length && track.rows[1].length) lanes[1] += 3;
      y += HEAD;
      if (track.open) y = lanes[1] + track.rows[1].length * ROW;
      y += GAP;
      return { track, y: top, lanes, bottom: y };
    });
    this.total = y + this.top - RULER;
    return places;
  }

  draw(colours, ink) {
    const paint = this.paint;
    Object.assign(this, { colours, ink });
    paint.font = "11px ui-monospace, monospace";
    paint.textBaseline = "middle";
    paint.fillStyle = ink.back;
    paint.fillRect(0, 0, this.width, this.height);
    this.layout();
    this.top = Math.max(0, Math.min(this.top, this.total - this.height + RULER + 30));
    for (const place of this.layout()) {
      if (place.bottom > RULER && place.y < this.height) this.drawTrack(place);
    }
    this.drawChosen();
    this.drawRuler();
    if (this.range) this.drawRange();
  }

  drawTrack({ track, y, lanes, bottom }) {
    const { paint, ink } = this;
    if (track.open) {
      paint.fillStyle = ink.lane;
      paint.fillRect(0, lanes[0], this.width, track.rows[0].length * ROW);
      paint.fillStyle = ink.kernel;
      paint.fillRect(0, lanes[1], this.width, track.rows[1].length * ROW);
      for (const lane of [0, 1]) {
        track.rows[lane].forEach((row, n) => {
          const at = lanes[lane] + n * ROW;
          if (at < this.height && at + ROW > RULER) this.drawRow(track, lane, n, row, at);
        });
      }
      this.drawGaps(track, lanes[0], bottom - GAP);
    }
    paint.fillStyle = ink.back;
    paint.fillRect(0, y, this.width, HEAD - 1);
    paint.fillStyle = ink.ink;
    paint.font = "600 12px system-ui, sans-serif";
    paint.fillText(`${track.open ? "▾" : "▸"} ${track.name}`, 8, y + HEAD / 2);
    const told = paint.measureText(`▾ ${track.name}`).width + 20;
    paint.font = "11px system-ui, sans-serif";
    paint.fillStyle = ink.dim;
    const kernel = track.rows[1].length ? ", kernel lane below" : "";
    paint.fillText(`${track.calls.toLocaleString("en")} calls${kernel}`, told, y + HEAD / 2);
    paint.font = "11px ui-monospace, monospace";
  }

  drawRow(track, lane, n, row, y) {
    const { paint } = this, matching = this.matching?.[track.number]?.[lane]?.[n];
    paint.globalAlpha = this.matching ? 0.22 : 1;
    this.drawCalls(row, y, null);
    paint.globalAlpha = 1;
    if (matching?.length) this.drawCalls(matching, y, this.ink.match);
  }

  /** Calls of one row, in order; `mark`: the colour of a line below each. */
  drawCalls(row, y, mark) {
    const { paint, colours } = this, { start, end, symbol } = this.trace;
    const scale = this.width / (this.to - this.from);
    for (let n = firstEndingAfter(end, row, this.from - 1 / scale); n < row.length && start[row[n]] < this.to;) {
      const call = row[n], left = (start[call] - this.from) * scale, right = (end[call] - this.from) * scale;
      paint.fillStyle = colours.fill[symbol[call]];
      if (right - left < 1) {
        const pixel = Math.floor(left);
        paint.fillRect(pixel, y, 1, ROW - 1);
        if (mark) { paint.fillStyle = mark; paint.fillRect(pixel, y + ROW - 3, 1, 2); }
        n = Math.max(n + 1, firstEndingAfter(end, row, this.from + (pixel + 1) / scale, n));
        continue;
      }
      this.drawCall(call, Math.max(left, -2), Math.min(right, this.width + 2), y, right <= this.width + 2);
      if (mark) { paint.fillStyle = mark; paint.fillRect(Math.max(left, -2), y + ROW - 3, Math.min(right, this.width + 2) - Math.max(left, -2), 2); }
      n++;
    }
  }

  drawCall(call, left, right, y, ends) {
    const { paint, ink, trace } = this, width = right - left - (right - left > 3 ? 0.6 : 0);
    paint.fillRect(left, y, width, ROW - 1);
    const state = trace.state[call];
    if (state && width > 4) {
      paint.fillStyle = state === CUT || state === OPEN ? ink.loss : ink.dim;
      if (state === OPEN && ends) paint.fillRect(left + width - 2.5, y, 2.5, ROW - 1);
      if (state === LEFT) { paint.beginPath(); paint.moveTo(right - 6, y); paint.lineTo(right, y); paint.lineTo(right, y + 6); paint.fill(); }
      if (state === BEFORE) paint.fillRect(left, y, 2.5, ROW - 1);
      if (state === CUT) for (let x = left; x < left + width; x += 6) paint.fillRect(x, y + ROW - 3, 3, 2);
    }
    const letters = Math.floor((width - 7) / LETTER);
    if (letters < 2) return;
    const name = trace.symbols[trace.symbol[call]][0];
    paint.fillStyle = ink.label;
    let text = name;
    if (name.length > letters) text = name.slice(0, letters - 1) + "…";
    else if (name.length + 10 <= letters) text = `${name}  ${duration(trace.end[call] - trace.start[call])}`;
    paint.fillText(text, Math.max(left, 0) + 4, y + ROW / 2);
  }

  drawGaps(track, y, bottom) {
    const { paint, ink } = this;
    let last = -9;
    for (const [, time] of track.gaps) {
      const x = this.x(time);
      if (x < -3 || x > this.width + 3 || x - last < 2) continue;
      last = x;
      paint.fillStyle = ink.loss;
      for (let at = y; at < bottom; at += 6) paint.fillRect(x - 1, at, 2, 3);
    }
  }

  drawRuler() {
    const { paint, ink, trace } = this, span = this.to - this.from;
    paint.fillStyle = ink.back;
    paint.fillRect(0, 0, this.width, RULER);
    const ideal = (span / this.width) * 120, power = 10 ** Math.floor(Math.log10(ideal));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((each) => each >= ideal));
    paint.font = "11px system-ui, sans-serif";
    const unit = UNITS.find(([, size]) => Math.max(step, Math.abs(this.to) / 20) >= size) ?? UNITS[3];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit[1]) - 1e-9));
    for (let time = Math.ceil(this.from / step) * step; time < this.to; time += step) {
      const x = Math.round(this.x(time));
      paint.fillStyle = ink.line;
      paint.globalAlpha = 0.55;
      paint.fillRect(x, RULER, 1, this.height);
      paint.globalAlpha = 1;
      paint.fillStyle = ink.dim;
      paint.fillRect(x, RULER - 6, 1, 6);
      paint.fillText(`${(time / unit[1]).toFixed(digits)} ${unit[0]}`, x + 4, RULER / 2);
    }
    paint.fillStyle = ink.line;
    paint.fillRect(0, RULER - 1, this.width, 1);
    for (const each of trace.omitted) this.drawFlag(each.from, ink.loss);
    for (const time of [0, trace.span]) this.drawFlag(time, ink.accent);
  }

  drawFlag(time, colour) {
    const { paint } = this, x = this.x(time);
    if (x < -6 || x > this.width + 6) return;
    paint.fillStyle = colour;
    paint.beginPath();
    paint.moveTo(x - 5, RULER - 10);
    paint.lineTo(x + 5, RULER - 10);
    paint.lineTo(x, RULER - 1);
    paint.fill();
  }

  drawChosen() {
    if (this.chosen < 0) return;
    const where = this.place(this.chosen);
    if (!where || where.y + ROW < RULER) return;
    const { paint, trace } = this;
    const left = Math.max(this.x(trace.start[this.chosen]), -3), right = Math.min(this.x(trace.end[this.chosen]), this.width + 3);
    paint.strokeStyle = this.ink.pick;
    paint.lineWidth = 2;
    paint.strokeRect(left, where.y, Math.max(right - left, 3), ROW - 1);
  }

  drawRange() {
    const { paint, ink } = this, [from, to] = this.range, left = this.x(Math.min(from, to)), right = this.x(Math.max(from, to));
    paint.fillStyle = ink.accent;
    paint.globalAlpha = 0.16;
    paint.fillRect(left, 0, right - left, this.height);
    paint.globalAlpha = 1;
    paint.fillRect(left, 0, 1, this.height);
    paint.fillRect(right, 0, 1, this.height);
    paint.font = "600 12px system-ui, sans-serif";
    paint.fillText(duration(Math.abs(to - from)), left + 6, RULER + 12);
  }

  /** {track, lane, row, y} of a call in an open thread. */
  place(call) {
    const { trace } = this;
    const found = this.layout().find(({ track }) => call >= track.first && call < track.last);
    if (!found.track.open) return null;
    const lane = trace.symbols[trace.symbol[call]][2];
    let row = 0;
    for (let above = trace.parent[call]; above >= 0; above = trace.parent[above]) {
      if (trace.symbols[trace.symbol[above]][2] === lane) row++;
    }
    return { track: found.track, lane, row, y: found.lanes[lane] + row * ROW };
  }

  /** The item at a place of the canvas: {track} for the head of a thread, {track, call}, or null. */
  at(x, y) {
    if (y < RULER) return null;
    const { start, end } = this.trace, slack = (this.to - this.from) / this.width;
    for (const { track, y: top, lanes, bottom } of this.layout()) {
      if (y < top || y >= bottom) continue;
      if (y < top + HEAD) return { track };
      for (const lane of [1, 0]) {
        const row = track.rows[lane][Math.floor((y - lanes[lane]) / ROW)];
        if (y < lanes[lane] || !row) continue;
        const time = this.time(x), call = row[firstEndingAfter(end, row, time - slack)];
        return call !== undefined && start[call] <= time + slack ? { track, call } : null;
      }
    }
    return null;
  }
}
