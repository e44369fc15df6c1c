// SPDX-License-Identifier: LGPL-2.1-or-later
// The line below the chosen instruments that says what a hit of each costs on this machine.

import { h, show } from "./dom.js";
import { get } from "./talk.js";

let asked = null;

// The line. It is empty until the costs are known: the first time they are measured, which takes a second or two.
export function costOf(requests) {
  const place = h("p");
  asked ??= get("/costs.json").catch(() => ({ each_ns: null }));
  asked.then(({ each_ns: each }) => {
    if (each) show(place, h("span", null, words(requests, each)));
  });
  return place;
}

function words(requests, each) {
  const used = new Set(requests.map((one) => one.slice(one.lastIndexOf("=") + 1)));
  const all = requests.some((one) => one.includes("=@"));
  const told = Object.entries(each).filter(([name]) => all || used.has(name)).map(([name, ns]) => `${name} ${ns.toFixed(1)} ns`);
  return told.length ? `On this machine a hit costs the program about: ${told.join(", ")}${all || told.length === used.size ? "" : "; C what its code takes"}.` : "";
}
