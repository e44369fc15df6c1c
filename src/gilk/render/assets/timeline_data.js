/* SPDX-License-Identifier: LGPL-2.1-or-later
 * From the packed text in the page to columns: times in ns since the trace's start, rows to draw calls in.
 * The format is timeline.py's: u32 length, JSON, then columns of variable-length numbers, seven bits a byte. */
"use strict";

async function unpack(text) {
  const raw = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads `count` numbers, up to 2**53, at `at.here`, which moves on. */
function numbers(bytes, at, count, into) {
  let here = at.here;
  for (let n = 0; n < count; n++) {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[here++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    into[n] = value;
  }
  at.here = here;
  return into;
}

function decode(bytes) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
  const at = { here: 4 + size }, count = head.calls;
  const start = numbers(bytes, at, count, new Float64Array(count));
  const duration = numbers(bytes, at, count, new Float64Array(count));
  const symbol = numbers(bytes, at, count, new Uint32Array(count));
  const depth = numbers(bytes, at, count, new Uint32Array(count));
  const state = numbers(bytes, at, count, new Uint8Array(count));
  const end = duration; // becomes it below
  const parent = new Int32Array(count).fill(-1), own = new Float64Array(count);
  const tracks = [];
  let first = 0;
  head.tracks.forEach((about, number) => {
    tracks.push(makeTrack(head, about, number, first, first + about.calls, { start, end, symbol, depth, parent, own }));
    first += about.calls;
  });
  return { ...head, start, end, symbol, depth, state, parent, own, tracks, count };
}

/** Sums starts, finds parents, and lays a thread's calls out in rows: how many of their lane they are within. */
function makeTrack(head, about, number, first, last, { start, end, symbol, depth, parent, own }) {
  const rows = [[], []], above = [], within = [0, 0]; // user, kernel
  let time = 0;
  for (let call = first; call < last; call++) {
    time += start[call];
    start[call] = time;
    own[call] = end[call];
    end[call] += time;
    while (above.length > depth[call]) within[head.symbols[symbol[above.pop()]][2]]--;
    if (above.length) {
      parent[call] = above[above.length - 1];
      own[parent[call]] -= own[call];
    }
    const lane = head.symbols[symbol[call]][2], row = within[lane]++;
    (rows[lane][row] ??= []).push(call);
    above.push(call);
  }
  const packed = rows.map((lane) => lane.map((row) => Int32Array.from(row)));
  return { ...about, number, first, last, rows: packed, open: true, gaps: head.gaps.filter((gap) => gap[0] === number) };
}

/** The first place in `row` whose call ends after `time`. Calls of a row do not overlap, so their ends are in order. */
function firstEndingAfter(end, row, time, from = 0) {
  let low = from, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[row[middle]] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

function duration(ns) {
  for (const [unit, size] of UNITS) {
    if (Math.abs(ns) >= size || size === 1) {
      const value = ns / size;
      return (size === 1 ? String(Math.round(value)) : value.toPrecision(Math.abs(value) >= 999.5 ? 4 : 3)) + " " + unit;
    }
  }
}

/** A time, rather than how long something took: to the nanosecond. */
function moment(ns) {
  const [unit, size] = UNITS.find(([, each]) => ns >= each) ?? UNITS[3];
  return `${(ns / size).toFixed(Math.round(Math.log10(size)))} ${unit}`;
}
