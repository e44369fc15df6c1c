// SPDX-License-Identifier: LGPL-2.1-or-later
// The first page: sessions under way, and the processes, programs and kernel to choose from.

import { capital, fileId, h, patch, percent, plural, short, show, table, trouble } from "./dom.js";
import { goTo, looking, notice } from "./frame.js";
import { Rates, sessionRows } from "./rows.js";
import { get, post } from "./talk.js";

export async function overview(place) {
  let found = await get("/index.json");
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const parts = { sessions: h("div"), kernels: h("div"), rows: h("div"), files: h("div") };
  const rates = new Map(); // by number of the session
  const field = h("input", { type: "search", id: "which", value: query, autocomplete: "off", spellcheck: "false",
    oninput: () => {
      history.replaceState(null, "", field.value ? `/?q=${encodeURIComponent(field.value)}` : "/");
      listed();
    } });

  function listed() {
    const words = field.value.toLowerCase();
    const shown = found.processes.filter((one) => `${one.pid} ${one.names.join(" ")}`.toLowerCase().includes(words));
    const files = found.programs.filter((one) => one.path.toLowerCase().includes(words));
    patch(parts.rows, shown.length ? processes(shown) : h("p", null, words ? "No such process is within the window's reach." : "No process is within the window's reach. gilk web --pid N reaches one, --user NAME all of a user."),
      found.programs.length ? h("h2", null, "Programs") : null, files.length ? programs(files) : null,
      found.programs_left_out ? h("p", null, `and ${plural(found.programs_left_out, "file")} that the list has no room for`) : null);
  }

  function drawn() {
    patch(parts.sessions, found.sessions.length ? sessionRows(found.sessions, columns(found, rates, look))
      : h("p", null, `None. Choose a ${found.machine ? "kernel or process" : "process"}, then a function, and put an instrument into it.`));
    patch(parts.kernels, found.kernel || found.machine ? kernels(found) : null);
    patch(parts.files, found.experiments.length ? experiments(found) : h("p", null, "There is none yet."));
    listed();
  }

  async function look() {
    found = await get("/index.json");
    drawn();
  }

  drawn();
  show(place,
    h("h1", null, "gilk on this machine"),
    h("section", { "aria-labelledby": "sessions" }, h("h2", { id: "sessions" }, "Sessions"), parts.sessions),
    parts.kernels,
    h("section", { "aria-labelledby": "processes" }, h("h2", { id: "processes" }, "Processes"),
      h("p", { class: "field" }, h("label", { for: "which" }, found.programs.length ? "Name, number or file" : "Name or number"), field), parts.rows),
    found.experiment_folders.length ? h("section", { "aria-labelledby": "experiments" }, h("h2", { id: "experiments" }, "Experiments"), parts.files, another(found)) : null,
    anotherBrowser());
  return looking(look);
}

// The columns of sessions that are known from one look to the next, and a button that takes a session out.
function columns(found, rates, look) {
  const perSecond = (one) => {
    if (!rates.has(one.number)) rates.set(one.number, new Rates());
    const all = one.hits || one.records || 0;
    const { all: rate } = rates.get(one.number).of({ seconds: one.seconds, paused: one.paused, counts: { all } });
    return rate === undefined || one.end || one.out ? "" : `${short(rate)}${one.hits || !one.records ? "" : " records"}`;
  };
  const cost = (one) => (typeof one.share === "number" ? percent(one.share) : "");
  const out = async (number, button) => {
    button.disabled = true;
    try {
      await post("/session/end", { session: number });
      await look();
    } catch (error) {
      notice(trouble(error));
      button.disabled = false;
    }
  };
  const acts = ["Change", "acts", (one) => (one.end || one.out ? "" : h("button", { "aria-label": `Take out session ${one.number}`, onclick: (event) => out(one.number, event.target) }, "Take out"))];
  return [["A second", "number lesser", perSecond], ["Cost", "number lesser", (one) => h("span", { title: "of a processor: the time that probes take" }, cost(one))], ...(found.acts ? [acts] : [])];
}

function kernels(found) {
  return h("section", { "aria-labelledby": "kernels" }, h("h2", { id: "kernels" }, "Kernels"),
    found.machine ? instrumented(found.machine) : null,
    found.kernel ? h("p", null, h("a", { href: "/target/kernel/symbols?image=kernel" }, "The kernel of this machine"), ", to look at.") : null);
}

const LAB_IS = { off: "it is off", starting: "it is starting", up: "it is up", over: "it has ended" };
const IS = { off: "not connected", starting: "connecting", up: "connected", over: "not connected" };

// The kernel that is instrumented. Its functions are one click away while its machine is there.
function instrumented({ name, title, state }) {
  const [lab, up] = [name === "lab", state === "up"];
  return h("p", null, h("a", { href: up ? `/target/${name}/symbols?image=kernel` : `/target/${name}` }, capital(title)),
    lab ? ", a virtual machine, where nothing can break this one: " : ", to instrument: ", (lab ? LAB_IS : IS)[state],
    up ? [". ", h("a", { href: `/target/${name}` }, lab ? "The lab" : "The machine")] : ".");
}

function experiments(found) {
  return table("Experiments", [
    ["File", "", (one) => h("a", { href: `/experiment/${one.id}` }, one.name)],
    ["Directory", "", (one) => one.folder],
  ], found.experiments, (one) => one.id);
}

// The fields for an experiment that is not there yet.
function another(found) {
  const folder = h("select", { id: "folder" }, found.experiment_folders.map((path) => h("option", { value: path }, path)));
  const name = h("input", { id: "new", autocomplete: "off", spellcheck: "false", required: true });
  const open = (event) => {
    event.preventDefault();
    const file = name.value.endsWith(".toml") ? name.value : `${name.value}.toml`;
    goTo(`/experiment/${fileId(`${folder.value}/${file}`)}`);
  };
  return h("form", { class: "fields", onsubmit: open },
    h("p", { class: "field" }, h("label", { for: "new" }, "A new one, called"), name),
    found.experiment_folders.length > 1 ? h("p", { class: "field" }, h("label", { for: "folder" }, "in"), folder) : null,
    h("p", { class: "field" }, h("button", null, "Open")));
}

function processes(shown) {
  return table(plural(shown.length, "process"), [
    ["Name", "", (one) => h("a", { href: `/target/${one.id}/symbols` }, one.names.join(", "))],
    ["Number", "", (one) => one.pid],
    ["Libraries", "", (one) => h("a", { href: `/target/${one.id}`, "aria-label": `Libraries of ${one.names[0]} ${one.pid}` }, "libraries")],
  ], shown, (one) => one.id);
}

function programs(shown) {
  return table(plural(shown.length, "program"), [
    ["File", "", (one) => h("a", { href: `/target/${one.id}/symbols` }, one.path)],
  ], shown, (one) => one.id);
}

// A button, and below it the address once it was pressed. The address is that of this page's server as this browser knows it.
function anotherBrowser() {
  const place = h("div", { role: "status" });
  return h("section", { "aria-label": "Another browser" },
    h("p", null, h("button", { onclick: () => askedFor(place) }, "Open in another browser")), place);
}

let last = 0;

async function askedFor(place) {
  try {
    const { key, seconds } = await post("/key/new", {});
    const [mine, until] = [++last, new Date(Date.now() + 1000 * seconds).toLocaleTimeString("en-GB")];
    show(place, ...fresh(`${location.origin}/#key=${key}`, until));
    setTimeout(() => {
      if (mine === last) show(place, h("p", null, "That address is no longer good. Press the button for a new one."));
    }, 1000 * seconds);
  } catch (error) {
    notice(trouble(error));
  }
}

function fresh(address, until) {
  const field = h("input", { id: "another", readonly: true, value: address, size: address.length, onfocus: () => field.select() });
  const copy = h("button", { onclick: async () => {
    try {
      await navigator.clipboard.writeText(address);
      copy.textContent = "Copied";
    } catch {
      field.focus(); // the browser lets no page write there: the reader copies what is now selected
    }
  } }, "Copy the address");
  return [h("p", { class: "field wide" }, h("label", { for: "another" }, "Address"), field, copy),
    h("p", null, `It is good once, until ${until}. Whoever opens it may do in this window what you may do. The sessions go on without any browser: `,
      h("code", null, "gilk web --key"), " in a terminal prints such an address, too.")];
}
