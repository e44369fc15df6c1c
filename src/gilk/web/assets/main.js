// SPDX-License-Identifier: LGPL-2.1-or-later
// Show the page that belongs to the address. Nothing else decides which page is shown.

import { h, show } from "./dom.js";
import { admitted, get } from "./talk.js";
import { forgetNotice, keys, refused, showNotice, top } from "./frame.js";
import { overview } from "./overview.js";
import { target, symbols } from "./target.js";
import { func } from "./function.js";
import { machine } from "./machine.js";
import { session } from "./session.js";
import { about, doctor, help } from "./papers.js";
import { program } from "./d.js";
import { experiment } from "./experiment.js";
import { timeline } from "./timeline.js";
import { diff, traces } from "./traces.js";
import { anomalies, sql, traceFlame, tree } from "./views.js";
import { plot } from "./plot.js";
import { tracing } from "./tracing.js";
import { pane } from "./pane.js";

const PAGES = [
  [/^\/$/, overview],
  [/^\/doctor$/, doctor],
  [/^\/help(?:\/(.*))?$/, help],
  [/^\/about$/, about],
  [/^\/target\/([^/]+)$/, target],
  [/^\/target\/([^/]+)\/symbols$/, symbols],
  [/^\/target\/([^/]+)\/function$/, func],
  [/^\/target\/([^/]+)\/d$/, program],
  [/^\/target\/([^/]+)\/trace$/, tracing],
  [/^\/session\/(\d+)$/, session],
  [/^\/experiment\/([^/]+)$/, experiment],
  [/^\/traces$/, traces],
  [/^\/file\/([^/]+)\/timeline$/, timeline],
  [/^\/file\/([^/]+)\/tree$/, tree],
  [/^\/file\/([^/]+)\/flame$/, traceFlame],
  [/^\/file\/([^/]+)\/anomalies$/, anomalies],
  [/^\/file\/([^/]+)\/plot$/, plot],
  [/^\/file\/([^/]+)\/sql$/, sql],
  [/^\/diff$/, diff],
];

const PICKING = /^\/target\/[^/]+(?:\/symbols|\/function)?$/; // the pages on which points are chosen

let leave = null;

async function render() {
  if (leave) leave();
  leave = null;
  dispatchEvent(new Event("gilk-leave"));
  const place = document.getElementById("main");
  const [match, page] = found();
  top();
  forgetNotice();
  pane(match && PICKING.test(location.pathname) ? match[1] : null);
  document.body.dataset.ready = "no";
  try {
    leave = (await (page ?? nothing)(place, ...(match ?? []).slice(1))) ?? null;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.slug === "machine-starting" || error.slug === "machine-is-over") leave = machine(place, await get(`/target/${match[1]}.json`));
    else show(place, refused(error));
  }
  const heading = place.querySelector("h1");
  document.title = heading ? `${heading.textContent} – gilk` : "gilk";
  document.body.dataset.ready = "yes";
}

function nothing(place) {
  show(place, h("h1", null, "There is no such page"), h("p", null, h("a", { href: "/" }, "Overview")));
}

function found() {
  for (const [pattern, page] of PAGES) {
    const match = pattern.exec(location.pathname);
    if (match) return [match, page];
  }
  return [null, null];
}

export function go(address) {
  history.pushState(null, "", address);
  render().then(() => {
    // The focus was on something of the earlier page, which is gone; but a reader may have moved it on meanwhile.
    if (document.activeElement === document.body) document.getElementById("main").focus();
  });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("keydown", (event) => {
  if (event.key !== "?" || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  keys();
});
addEventListener("popstate", render);
addEventListener("gilk-go", (event) => go(event.detail));
addEventListener("gilk-again", render);
addEventListener("gilk-notice", (event) => showNotice(event.detail));

try {
  if (await admitted()) await render();
  else throw Object.assign(new Error("This window needs a key"), {
    slug: "no-token", hint: "Open the address that `gilk web` has printed: it is good once, and for a minute. `gilk web --key` prints a new one.",
  });
} catch (error) {
  show(document.getElementById("main"), refused(error));
  document.body.dataset.ready = "yes";
}
