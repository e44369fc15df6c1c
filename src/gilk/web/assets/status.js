// SPDX-License-Identifier: LGPL-2.1-or-later
// The line at the top of each page: the sessions that go on, what they have dropped, and what probes and gilk's own work cost.

import { clock, dropped, h, plural, renew, show } from "./dom.js";
import { get } from "./talk.js";

const EVERY = 2000; // ms
const PATIENCE = 4000; // ms after which an answer is missed
const LONGEST = 30_000; // ms after which it is waited for no more
let before = null;
let current = null; // the place on the page that is shown
let looking = false;
let answered = Date.now(); // when the server has last answered
let missed = false; // whether the page says that it does not

// Show the line in its place, now and from time to time, until another place is given. A hidden page does not ask.
export function status(place) {
  current = place;
  if (!missed) tell(null);
  again(place);
}

// A request has failed, or a connection has ended: look at once whether the server is there.
addEventListener("gilk-look", () => { if (current && !looking) look(current); });

async function again(place) {
  if (document.hidden) await new Promise((seen) => addEventListener("visibilitychange", seen, { once: true }));
  else if (!looking) await look(place);
  setTimeout(() => { if (place === current) again(place); }, EVERY);
}

async function look(place) {
  looking = true;
  const late = setTimeout(() => miss("gilk web has not answered"), PATIENCE);
  try {
    const now = await get("/status.json", AbortSignal.timeout(LONGEST));
    renew(place, [now, before], () => words(now));
    before = now;
    answers();
  } catch (error) {
    renew(place, null, () => null);
    if (error.status) other(error);
    else miss("gilk web cannot be reached");
  } finally {
    clearTimeout(late);
    looking = false;
  }
}

// Say, until it answers again, that the server does not.
function miss(what) {
  if (current.isConnected) tell(`${what} since ${clock(answered / 1000)}. This page shows what was known then, and goes on by itself when gilk web answers.`);
  missed = true;
}

function answers() {
  if (missed) tell(`gilk web answers again, since ${clock(Date.now() / 1000)}.`);
  missed = false;
  answered = Date.now();
}

// Another server than that which this page is of: it refuses the page's token.
function other(error) {
  if (missed && error.status === 401) tell("gilk web was started anew: open the address that it has printed. This page shows what was known before.");
}

function tell(text) {
  const place = document.getElementById("answers");
  if (place?.textContent !== (text ?? "")) show(place, text ? h("p", null, text) : null);
}

function words(now) {
  if (!now.sessions) return null;
  return h("span", null, `${plural(now.sessions, "session")}, `, dropped(now.drops, now.records), " dropped",
    before && now.at > before.at ? `; of a processor, ${now.unknown === now.sessions ? "" : `probes take ${now.unknown ? "at least " : ""}${share(now, "probes")}, `}gilk ${now.unknown === now.sessions ? "takes " : ""}${share(now, "processor")}` : "");
}

function share(now, what) {
  const part = Math.max(0, now[what] - before[what]) / (now.at - before.at);
  return `${(100 * part).toFixed(part < 0.1 ? 1 : 0)} %`;
}
