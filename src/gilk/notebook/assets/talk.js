// SPDX-License-Identifier: LGPL-2.1-or-later
// Requests of a widget's pages to the notebook's Python process. It takes the place of the window's module of this name. A
// widget has an address, a history and events of its own in place of the browser's.

const waiting = new Map();
const followers = new Set();
const events = new EventTarget();
let [channel, last, page] = [null, 0, "/"];

export const addEventListener = events.addEventListener.bind(events);
export const dispatchEvent = events.dispatchEvent.bind(events);
export const location = { get pathname() { return page.split("?")[0]; }, get search() { return page.slice(this.pathname.length); } };
export const history = { replaceState: (_state, _title, address) => { page = address; } };

export class Told extends Error {
  constructor(error) {
    super(error.message);
    Object.assign(this, error);
  }
}

// `through` sends messages to Python; the returned function takes those that come from there.
export function connect(through) {
  channel = through;
  return (message) => {
    if (message.state) for (const told of followers) told(message.state);
    const answer = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) answer?.[1](new Told(message.error));
    else if (message.ok) answer?.[0](message.ok);
  };
}

export function get(path, signal) {
  return new Promise((done, failed) => {
    const id = ++last;
    waiting.set(id, [done, failed]);
    signal?.addEventListener("abort", () => {
      waiting.delete(id);
      failed(new DOMException("given up", "AbortError"));
    });
    channel.send({ id, path });
  });
}

export async function post() {
  throw new Told({ slug: "read-only", message: "a widget only looks", hint: "the cells of the notebook act" });
}

// Call `told` with each state that Python sends. Returns a function that stops this.
export function follow(_session, told) {
  followers.add(told);
  return () => followers.delete(told);
}

export function pick(points) {
  channel.pick(points);
}
