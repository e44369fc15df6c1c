// SPDX-License-Identifier: LGPL-2.1-or-later
// Requests to the server. The key in the address is exchanged once for a token, which every later request carries.
// A new tab gets the token from another tab of this window.

const NAME = "gilk-token";
const channel = new BroadcastChannel("gilk");
const WAIT = 300; // ms that other tabs have to answer

export class Told extends Error {
  constructor(error, status) {
    super(error.message);
    Object.assign(this, error, { status });
  }
}

channel.addEventListener("message", (event) => {
  if (event.data === "token?" && token()) channel.postMessage({ token: token() });
});

function token() {
  return sessionStorage.getItem(NAME);
}

export async function admitted() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key) {
    history.replaceState(null, "", location.pathname + location.search);
    const answer = await post("/key", { key });
    sessionStorage.setItem(NAME, answer.token);
  }
  if (!token()) await askedOthers();
  return Boolean(token());
}

function askedOthers() {
  return new Promise((done) => {
    channel.addEventListener("message", (event) => {
      if (event.data.token) sessionStorage.setItem(NAME, event.data.token);
      done();
    });
    channel.postMessage("token?");
    setTimeout(done, WAIT);
  });
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { authorization: `Bearer ${token() ?? ""}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    dispatchEvent(new Event("gilk-look"));
    throw new Told({ slug: "server-gone", message: "the server does not answer", hint: "start gilk web again" }, 0);
  }
  const found = await answer.json();
  if (found.error) throw new Told(found.error, answer.status);
  return found;
}

export function get(path, signal) {
  return ask(path, { signal });
}

export function post(path, given, signal) {
  return ask(path, { method: "POST", body: JSON.stringify(given), signal });
}

// Call `told` with the state of a session whenever that has changed. Returns a function that stops this.
export function follow(session, told, state = {}) {
  let over = false;
  let socket;
  function open() {
    socket = new WebSocket(`ws://${location.host}/live`);
    socket.addEventListener("open", () => socket.send(JSON.stringify({ token: token(), session })));
    socket.addEventListener("message", (event) => {
      const { counts, ...news } = JSON.parse(event.data);
      Object.assign(state, news);
      if (counts) state.counts = { ...state.counts, ...counts };
      told(state);
      socket.send('{"got":1}');
    });
    socket.addEventListener("close", (event) => {
      if (!over && event.code !== 1000) dispatchEvent(new Event("gilk-look"));
      if (!over && event.code !== 1000 && event.code !== 1008) setTimeout(open, 1000 * (1 + Math.random()));
    });
  }
  open();
  return () => {
    over = true;
    if (socket.readyState === WebSocket.CONNECTING) socket.addEventListener("open", () => socket.close()); // else the browser complains
    else socket.close();
  };
}
