// SPDX-License-Identifier: LGPL-2.1-or-later
// The line at the top of each page: the sessions that go on, what they have dropped, and what probes and gilk's own work cost.

import { h, number, plural, show } from "./dom.js";
import { get } from "./talk.js";

const EVERY = 2000; // ms
let before = null;
let current = null; // the place on the page that is shown

// Show the line in its place, now and from time to time, until another place is given. A hidden page does not ask.
export function status(place) {
  current = place;
  again(place);
}

async function again(place) {
  if (document.hidden) await new Promise((seen) => addEventListener("visibilitychange", seen, { once: true }));
  else await look(place);
  setTimeout(() => { if (place === current) again(place); }, EVERY);
}

async function look(place) {
  try {
    const now = await get("/status.json");
    show(place, words(now));
    before = now;
  } catch {
    show(place); // the page itself says that the window has gone
  }
}

function words(now) {
  if (!now.sessions) return null;
  return h("span", null, `${plural(now.sessions, "session")}, ${number(now.drops)} dropped`,
    before && now.at > before.at ? `; of a processor, ${now.unknown === now.sessions ? "" : `probes take ${now.unknown ? "at least " : ""}${share(now, "probes")}, `}gilk ${now.unknown === now.sessions ? "takes " : ""}${share(now, "processor")}` : "");
}

function share(now, what) {
  const part = Math.max(0, now[what] - before[what]) / (now.at - before.at);
  return `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;
}
