// SPDX-License-Identifier: LGPL-2.1-or-later
// Show the page that belongs to the address. Nothing else decides which page is shown.

import { h, show } from "./dom.js";
import { admitted, get } from "./talk.js";
import { forgetNotice, keys, refused, showNotice, top } from "./frame.js";

// The pages by their addresses: the module of each is loaded when the page is first shown, and the name of its function.
const PAGES = [
  [/^\/$/, () => import("./overview.js"), "overview"],
  [/^\/doctor$/, () => import("./papers.js"), "doctor"],
  [/^\/help(?:\/(.*))?$/, () => import("./papers.js"), "help"],
  [/^\/about$/, () => import("./papers.js"), "about"],
  [/^\/target\/([^/]+)$/, () => import("./target.js"), "target"],
  [/^\/target\/([^/]+)\/symbols$/, () => import("./target.js"), "symbols"],
  [/^\/target\/([^/]+)\/function$/, () => import("./function.js"), "func"],
  [/^\/target\/([^/]+)\/d$/, () => import("./d.js"), "program"],
  [/^\/target\/([^/]+)\/trace$/, () => import("./tracing.js"), "tracing"],
  [/^\/session\/(\d+)$/, () => import("./session.js"), "session"],
  [/^\/experiment\/([^/]+)$/, () => import("./experiment.js"), "experiment"],
  [/^\/traces$/, () => import("./traces.js"), "traces"],
  [/^\/file\/([^/]+)\/timeline$/, () => import("./timeline.js"), "timeline"],
  [/^\/file\/([^/]+)\/tree$/, () => import("./views.js"), "tree"],
  [/^\/file\/([^/]+)\/flame$/, () => import("./views.js"), "traceFlame"],
  [/^\/file\/([^/]+)\/anomalies$/, () => import("./views.js"), "anomalies"],
  [/^\/file\/([^/]+)\/plot$/, () => import("./plot.js"), "plot"],
  [/^\/file\/([^/]+)\/sql$/, () => import("./views.js"), "sql"],
  [/^\/diff$/, () => import("./traces.js"), "diff"],
];

const PICKING = /^\/target\/[^/]+(?:\/symbols|\/function)?$/; // the pages on which points are chosen

let leave = null;
let listed = false; // whether there has been a list of chosen instruments yet
let rendered = 0;

async function render() {
  if (leave) leave();
  leave = null;
  dispatchEvent(new Event("gilk-leave"));
  const place = document.getElementById("main");
  const mine = ++rendered;
  top();
  forgetNotice();
  document.body.dataset.ready = "no";
  const [match, load, name] = found();
  try {
    const picking = match !== null && PICKING.test(location.pathname);
    listed ||= picking;
    const [page, list] = await Promise.all([load ? loaded(load) : null, listed ? loaded(() => import("./pane.js")) : null]);
    if (mine !== rendered) return; // another page was asked for meanwhile
    list?.pane(picking ? match[1] : null);
    leave = (await (page?.[name] ?? nothing)(place, ...(match ?? []).slice(1))) ?? null;
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.slug === "machine-starting" || error.slug === "machine-is-over") leave = await machine(place, match[1]);
    else show(place, refused(error));
  }
  const heading = place.querySelector("h1");
  document.title = heading ? `${heading.textContent} – gilk` : "gilk";
  document.body.dataset.ready = "yes";
}

// A module. Raises an error with a slug if the server does not answer.
async function loaded(load) {
  try {
    return await load();
  } catch {
    throw Object.assign(new Error("the server does not answer"), { slug: "server-gone", hint: "start gilk web again" });
  }
}

async function machine(place, target) {
  const page = await loaded(() => import("./machine.js"));
  return page.machine(place, await get(`/target/${target}.json`));
}

function nothing(place) {
  show(place, h("h1", null, "There is no such page"), h("p", null, h("a", { href: "/" }, "Overview")));
}

function found() {
  for (const [pattern, load, name] of PAGES) {
    const match = pattern.exec(location.pathname);
    if (match) return [match, load, name];
  }
  return [null, null, ""];
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
  found()[1]?.().catch(() => {}); // while the key is exchanged
  if (await admitted()) await render();
  else throw Object.assign(new Error("This window needs a key"), {
    slug: "no-token", hint: "Open the address that `gilk web` has printed: it is good once, and for a minute. `gilk web --key` prints a new one.",
  });
} catch (error) {
  show(document.getElementById("main"), refused(error));
  document.body.dataset.ready = "yes";
}
