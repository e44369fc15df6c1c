// SPDX-License-Identifier: LGPL-2.1-or-later
// Lists of sessions, and rates of their hits.

import { clock, dropped, h, lines, number, table } from "./dom.js";

// The rows of sessions. `more`: further columns, before that of the state.
export function sessionRows(sessions, more = []) {
  return table("Sessions", [
    ["Session", "told", (one) => [h("a", { href: `/session/${one.number}` }, `${one.number}: ${one.title}`),
      h("div", { class: "hint" }, lines(one.requests.join(", ").trim()), one.more ? ` and ${one.more} more` : "")]],
    ["Since", "number lesser", (one) => clock(one.since)],
    ["Hits", "number", (one) => (one.hits || !one.records ? number(one.hits ?? 0) : "")],
    ["Dropped", "number lesser", (one) => dropped(one.drops ?? 0, one.records)],
    ...more,
    ["State", "told", (one) => (one.end ? `over: ${one.end}` : one.out ? "being taken out" : one.paused ? "paused" : "goes on")],
  ], sessions, (one) => one.number);
}

// The hits of each point per second, between two states that are a second apart; none of a session that is paused.
export class Rates {
  of(state) {
    const now = state.seconds ?? 0; // the first state comes before the first count
    if (state.paused) {
      this.before = { seconds: now, counts: { ...state.counts } };
      this.rates = {};
      return this.rates;
    }
    const before = this.before;
    if (!before || now - before.seconds > 0.9) {
      const entries = Object.entries(before ? state.counts ?? {} : {});
      this.rates = Object.fromEntries(entries.map(([point, count]) =>
        [point, (count - (before.counts[point] ?? 0)) / (now - before.seconds)]));
      this.before = { seconds: now, counts: { ...state.counts } };
    }
    return this.rates;
  }
}
