// SPDX-License-Identifier: LGPL-2.1-or-later
// The times of the chosen instruments: when each is put in and taken out, in seconds after the session's beginning.

import { h } from "./dom.js";

function kept(target) {
  try {
    return JSON.parse(sessionStorage.getItem(`times ${target}`)) ?? {};
  } catch {
    return {};
  }
}

// The instruments as the server wants them: {request, start, stop}; a stop of null is the end.
export function listed(target, requests) {
  const times = kept(target);
  return requests.map((request) => ({ request, start: times[request]?.start ?? 0, stop: times[request]?.stop ?? null }));
}

// Whether an instrument has other times than those of the session.
export function timed(target, requests) {
  return listed(target, requests).some((one) => one.start || one.stop !== null);
}

// Fields for the times. `changed` is called after each change.
export function timesField(target, requests, changed) {
  const field = (one, key, label) => h("input", { type: "number", min: 0, step: "any", "aria-label": `${label} of ${one.request} in seconds`,
    value: key === "start" ? one.start : one.stop ?? "", placeholder: key === "stop" ? "the end" : "0", onchange: (event) => {
      const value = event.target.value === "" ? null : Math.max(0, Math.round(event.target.valueAsNumber * 1000) / 1000);
      const times = kept(target);
      times[one.request] = { start: one.start, stop: one.stop, ...times[one.request], [key]: key === "start" ? value ?? 0 : value };
      sessionStorage.setItem(`times ${target}`, JSON.stringify(times));
      changed();
    } });
  const place = h("details", { open: sessionStorage.getItem("times open") === "yes" || timed(target, requests),
    ontoggle: () => sessionStorage.setItem("times open", place.open ? "yes" : "no") },
  h("summary", null, "Start and stop times"),
  listed(target, requests).map((one) => h("p", { class: "field times" }, h("code", null, one.request),
    h("span", null, "put in at second "), field(one, "start", "Start"), h("span", null, "taken out at second "), field(one, "stop", "Stop"))));
  return place;
}
