// SPDX-License-Identifier: LGPL-2.1-or-later
// The calls of a time line in tiles that the server makes for each scale. A tile has 512 pixels and 32 rows, and for each
// pixel the longest call that begins in it. Narrow calls become an image; wide ones are drawn as rectangles with names.

import { get } from "./talk.js";

export const PIXELS = 512;
export const ROWS = 32;
const MOST = 400; // tiles that are kept
const MOST_ASKED = 6; // requests to the server at one time

function hash(text) {
  let value = 2166136261;
  for (let n = 0; n < text.length; n++) value = Math.imul(value ^ text.charCodeAt(n), 16777619);
  return (value >>> 0) / 4294967296;
}

// Red, green and blue of each function. Functions of one image have similar hues; the kernel has hues of its own.
export function palette(symbols, dark) {
  return symbols.map(([name, image, kernel]) => {
    const hue = kernel ? 12 + 16 * hash(name) : 60 + 250 * hash(image) + 150 * (hash(`${name}'`) - 0.5);
    return rgb(hue, dark ? 0.42 : 0.6, (dark ? 0.3 : 0.7) + 0.12 * hash(name));
  });
}

function rgb(hue, saturation, lightness) {
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

function unpacked(found) {
  const bytes = Uint8Array.from(atob(found.data), (letter) => letter.charCodeAt(0));
  const count = found.calls;
  let at = 0;
  const take = (Kind) => {
    const column = new Kind(bytes.buffer, at, count);
    at += count * Kind.BYTES_PER_ELEMENT;
    return column;
  };
  return { count, start: take(Float64Array), duration: take(Float64Array), call: take(Uint32Array), number: take(Uint32Array),
    symbol: take(Uint32Array), row: take(Uint8Array), state: take(Uint8Array), gaps: found.gaps };
}

export class Tiles {
  constructor(file, colours, changed) {
    Object.assign(this, { file, colours, changed, tiles: new Map(), asked: 0, wanted: [] });
  }

  recolour(colours) {
    this.colours = colours;
    for (const tile of this.tiles.values()) if (tile.calls) tile.image = this.image(tile);
  }

  // The tile, or null while it is loaded; `changed` is called when it is here. An error of a request is kept in `trouble`.
  get(zoom, number, chunk, query) {
    const key = `${zoom} ${number} ${chunk} ${query}`;
    let tile = this.tiles.get(key);
    if (!tile) {
      tile = { zoom, number, chunk, query, key, calls: null };
      this.tiles.set(key, tile);
      this.wanted.push(tile);
      this.forget();
      this.next();
    }
    tile.used = performance.now();
    return tile.calls ? tile : null;
  }

  peek(zoom, number, chunk, query) {
    const tile = this.tiles.get(`${zoom} ${number} ${chunk} ${query}`);
    return tile?.calls ? tile : null;
  }

  get busy() {
    return this.asked > 0 || this.wanted.length > 0;
  }

  // Load the tiles that were asked for last first: older ones may be out of view.
  next() {
    while (this.asked < MOST_ASKED && this.wanted.length) this.load(this.wanted.pop());
  }

  async load(tile) {
    this.asked += 1;
    try {
      const words = new URLSearchParams({ zoom: tile.zoom, number: tile.number, chunk: tile.chunk, q: tile.query });
      tile.calls = unpacked(await get(`/file/${this.file}/timeline/tile.json?${words}`));
      tile.image = this.image(tile);
    } catch (error) {
      this.trouble = error;
    }
    this.asked -= 1;
    this.next();
    this.changed();
  }

  forget() {
    if (this.tiles.size <= MOST) return;
    const oldest = [...this.tiles.values()].filter((each) => each.calls).sort((one, other) => one.used - other.used);
    for (const tile of oldest.slice(0, MOST / 4)) this.tiles.delete(tile.key);
  }

  // The image of a tile's narrow calls, a pixel for each; the others are listed in `wide`.
  image(tile) {
    const width = 2 ** tile.zoom;
    const begin = tile.number * PIXELS * width;
    const pixels = new ImageData(PIXELS, ROWS);
    tile.wide = [];
    const { calls } = tile;
    for (let n = 0; n < calls.count; n++) {
      if (calls.duration[n] >= 2 * width) {
        tile.wide.push(n);
        continue;
      }
      const x = Math.max(0, Math.floor((calls.start[n] - begin) / width));
      const at = 4 * (calls.row[n] * PIXELS + Math.min(PIXELS - 1, x));
      [pixels.data[at], pixels.data[at + 1], pixels.data[at + 2]] = this.colours[calls.symbol[n]];
      pixels.data[at + 3] = 255;
    }
    const canvas = document.createElement("canvas");
    canvas.width = PIXELS;
    canvas.height = ROWS;
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    return canvas;
  }
}
