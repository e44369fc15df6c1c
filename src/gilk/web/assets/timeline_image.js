// SPDX-License-Identifier: LGPL-2.1-or-later
// One image of a time line, drawn from tiles: the rows in view between two times. It also tells which call lies where.

import { roundStep } from "./axis.js";
import { moment, plural } from "./dom.js";
import { PIXELS, ROWS } from "./tiles.js";

export const RULER = 24, HEAD = 20, ROW = 18; // pixels
const LABEL = 30; // pixels that a call needs to get its name

export class TimelineImage {
  // `rows` are {head} or {row} with their heights y; `shown` are those in view. Times are in ns.
  constructor(canvas, tiles, found, { from, to, top, rows, chosen }) {
    const height = canvas.clientHeight;
    const shown = rows.filter((each) => each.y + ROW > top && each.y - top < height - RULER);
    const style = getComputedStyle(canvas);
    Object.assign(this, { tiles, found, from, to, top, shown, chosen, height, width: canvas.clientWidth, hits: [], labels: new Map() });
    this.ink = (name) => style.getPropertyValue(name).trim();
    this.paint = this.cleared(canvas);
  }

  // The context of the canvas, cleared, in units of the page's pixels.
  cleared(canvas) {
    const scale = devicePixelRatio || 1;
    const [wide, high] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    const paint = canvas.getContext("2d");
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.imageSmoothingEnabled = false;
    paint.fillStyle = this.ink("--back");
    paint.fillRect(0, 0, this.width, this.height);
    return paint;
  }

  // Draw the image. If `query` is not empty, the functions that match it stand out.
  draw(query) {
    const fore = this.ink("--fore");
    this.paint.globalAlpha = query ? 0.3 : 1;
    this.layer("", fore);
    this.paint.globalAlpha = 1;
    if (query) this.layer(query, fore);
    this.heads(fore);
    this.gaps(this.ink("--bad"));
    this.chosenBox(fore);
    this.ruler();
  }

  x(time) {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }

  y(each) {
    return RULER + each.y - this.top;
  }

  heads(ink) {
    this.paint.font = "12px system-ui, sans-serif";
    for (const each of this.shown) {
      if (!each.head) continue;
      this.paint.fillStyle = this.ink("--box");
      this.paint.fillRect(0, this.y(each), this.width, HEAD);
      this.paint.fillStyle = ink;
      this.paint.fillText(`${each.head.name}: ${plural(each.head.calls, "call")}`, 6, this.y(each) + 14);
    }
  }

  // Draw every tile in view; while a tile is loaded, the same part of a coarser one.
  layer(query, ink) {
    const exact = (this.to - this.from) / Math.max(1, this.width);
    const zoom = Math.max(0, Math.ceil(Math.log2(exact)));
    const wide = PIXELS * 2 ** zoom;
    const chunks = new Map();
    for (const each of this.shown) {
      if (each.head) continue;
      const chunk = Math.floor(each.row / ROWS);
      chunks.set(chunk, [...(chunks.get(chunk) ?? []), each]);
    }
    this.labels = new Map();
    for (const [chunk, rows] of chunks) {
      for (let n = Math.floor(this.from / wide); n * wide < this.to; n++) {
        const tile = this.tiles.get(zoom, n, chunk, query);
        if (tile) this.tile(tile, rows, n * wide, (n + 1) * wide, ink);
        else this.instead(zoom, n, chunk, query, rows, ink);
      }
    }
    this.named(ink);
  }

  // Write the names, after all tiles, so that a call which is in several tiles is named once.
  named(ink) {
    this.paint.font = "11px ui-monospace, monospace";
    for (const [calls, n, y] of this.labels.values()) {
      this.label(calls, n, this.x(calls.start[n]), this.x(calls.start[n] + calls.duration[n]), y, ink);
    }
  }

  instead(zoom, n, chunk, query, rows, ink) {
    const wide = PIXELS * 2 ** zoom;
    for (let up = 1; up < 12; up++) {
      const tile = this.tiles.peek(zoom + up, Math.floor(n / 2 ** up), chunk, query);
      if (!tile) continue;
      this.tile(tile, rows, n * wide, (n + 1) * wide, ink);
      return;
    }
  }

  tile(tile, rows, from, to, ink) {
    const width = 2 ** tile.zoom;
    const begin = tile.number * PIXELS * width;
    const [left, right] = [this.x(from), this.x(to)];
    const at = new Map(rows.map((each) => [each.row - tile.chunk * ROWS, this.y(each)]));
    for (const [row, y] of at) {
      this.paint.drawImage(tile.image, (from - begin) / width, row, (to - from) / width, 1, left, y, right - left, ROW - 2);
    }
    const { calls } = tile;
    for (const n of tile.wide) {
      const y = at.get(calls.row[n]);
      if (y === undefined) continue;
      const x = Math.max(left, this.x(calls.start[n]));
      const end = Math.min(right, this.x(calls.start[n] + calls.duration[n]));
      if (end <= x) continue;
      const [red, green, blue] = this.tiles.colours[calls.symbol[n]];
      this.paint.fillStyle = `rgb(${red} ${green} ${blue})`;
      this.paint.fillRect(x, y, Math.max(1, end - x - (this.x(calls.start[n] + calls.duration[n]) <= right ? 0.7 : 0)), ROW - 2);
      if (calls.state[n]) this.unsure(x, y, end - x, ink);
      this.labels.set(calls.call[n], [calls, n, y]);
    }
    this.hits.push({ tile, from, to });
  }

  // Mark a call whose entry or return was not recorded.
  unsure(x, y, width, ink) {
    this.paint.fillStyle = ink;
    for (let at = x; at < x + width; at += 6) this.paint.fillRect(at, y + ROW - 4, 3, 1.5);
  }

  label(calls, n, x, end, y, ink) {
    const from = Math.max(x, 0), wide = Math.min(end, this.width) - from;
    if (wide < LABEL) return;
    const name = this.found.symbols[calls.symbol[n]][0].replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "·");
    this.paint.fillStyle = ink;
    this.paint.fillText(name.slice(0, Math.floor((wide - 6) / 6.7)), from + 3, y + 12);
  }

  gaps(ink) {
    this.paint.fillStyle = ink;
    for (const { tile, from, to } of this.hits) {
      for (const at of tile.calls.gaps) if (at >= from && at < to) this.paint.fillRect(this.x(at), RULER, 1.5, this.height);
    }
  }

  chosenBox(ink) {
    const row = this.chosen && this.shown.find((each) => each.row === this.chosen.row);
    if (!row) return;
    const x = this.x(this.chosen.start), width = Math.max(2, this.x(this.chosen.start + this.chosen.duration) - x);
    this.paint.strokeStyle = ink;
    this.paint.lineWidth = 2;
    this.paint.strokeRect(Math.max(-2, x), this.y(row) - 1, Math.min(this.width + 4, width), ROW);
  }

  ruler() {
    this.paint.fillStyle = this.ink("--back");
    this.paint.fillRect(0, 0, this.width, RULER);
    this.paint.fillStyle = this.ink("--line");
    this.paint.fillRect(0, 0, this.width, 4);
    this.paint.fillStyle = this.ink("--link");
    const { span } = this.found;
    this.paint.fillRect((this.from / span) * this.width, 0, Math.max(3, ((this.to - this.from) / span) * this.width), 4);
    const step = roundStep(((this.to - this.from) * 110) / this.width);
    this.paint.font = "11px system-ui, sans-serif";
    this.paint.fillStyle = this.ink("--soft");
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      this.paint.fillRect(this.x(time), 6, 1, 6);
      this.paint.fillText(moment(time, step), this.x(time) + 3, 16);
    }
  }

  // The number of the call drawn at a place, or of the nearest within two pixels; null if there is none.
  callAt(x, y) {
    const row = this.shown.find((each) => each.row !== undefined && y >= this.y(each) && y < this.y(each) + ROW);
    if (!row) return null;
    const time = this.from + (x / this.width) * (this.to - this.from);
    const slack = (2 * (this.to - this.from)) / this.width;
    let [best, least] = [null, slack];
    for (const { tile, from, to } of this.hits) {
      if (time < from || time >= to || Math.floor(row.row / ROWS) !== tile.chunk) continue;
      const { calls } = tile;
      for (let n = 0; n < calls.count; n++) {
        if (calls.row[n] !== row.row - tile.chunk * ROWS) continue;
        const far = Math.max(calls.start[n] - time, time - calls.start[n] - calls.duration[n], 0);
        if (far < least || (far === 0 && best === null)) [best, least] = [calls.call[n], far];
      }
    }
    return best;
  }
}
