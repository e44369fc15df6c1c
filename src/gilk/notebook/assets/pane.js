// SPDX-License-Identifier: LGPL-2.1-or-later
// The points that are picked in a graph: Python has them as the widget's `points`. It takes the place of the window's list of
// chosen instruments.

import { notice } from "./frame.js";
import { get, pick } from "./talk.js";

const listeners = new Set();
let picked = [];

export function chosen() {
  return picked;
}

export function toggle(_target, request) {
  const there = picked.includes(request);
  picked = there ? picked.filter((each) => each !== request) : [...picked, request];
  pick(picked);
  notice(`${request} is ${there ? "no longer" : "now"} in the widget's points.`);
  for (const listener of listeners) listener();
}

export function whenChosen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// The session whose counts the graph shows, if the widget was given one.
export async function sessionsOf() {
  try {
    return [await get("/session/0.json")];
  } catch {
    return [];
  }
}
