// SPDX-License-Identifier: LGPL-2.1-or-later
// The first page: sessions under way, and the processes, programs and kernel to choose from.

import { capital, fileId, h, plural, show, table } from "./dom.js";
import { anotherBrowser } from "./another.js";
import { goTo } from "./frame.js";
import { get } from "./talk.js";
import { sessionRows } from "./session.js";

export async function overview(place) {
  const found = await get("/index.json");
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const rows = h("div");
  const field = h("input", { type: "search", id: "which", value: query, autocomplete: "off", spellcheck: "false",
    oninput: () => {
      history.replaceState(null, "", field.value ? `/?q=${encodeURIComponent(field.value)}` : "/");
      listed();
    } });

  function listed() {
    const words = field.value.toLowerCase();
    const shown = found.processes.filter((one) => `${one.pid} ${one.names.join(" ")}`.toLowerCase().includes(words));
    const files = found.programs.filter((one) => one.path.toLowerCase().includes(words));
    show(rows, shown.length ? processes(shown) : h("p", null, words ? "No such process is within the window's reach." : "No process is within the window's reach. gilk web --pid N reaches one, --user NAME all of a user."),
      found.programs.length ? h("h2", null, "Programs") : null, files.length ? programs(files) : null,
      found.programs_left_out ? h("p", null, `and ${plural(found.programs_left_out, "file")} that the list has no room for`) : null);
  }
  listed();
  show(place,
    h("h1", null, "gilk on this machine"),
    h("section", { "aria-labelledby": "sessions" }, h("h2", { id: "sessions" }, "Sessions"),
      found.sessions.length ? sessionRows(found.sessions)
        : h("p", null, `None. Choose a ${found.machine ? "kernel or process" : "process"}, then a function, and put an instrument into it.`)),
    found.kernel || found.machine ? kernels(found) : null,
    h("section", { "aria-labelledby": "processes" }, h("h2", { id: "processes" }, "Processes"),
      h("p", { class: "field" }, h("label", { for: "which" }, found.programs.length ? "Name, number or file" : "Name or number"), field), rows),
    found.experiment_folders.length ? experiments(found) : null,
    anotherBrowser());
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
  const folder = h("select", { id: "folder" }, found.experiment_folders.map((path) => h("option", { value: path }, path)));
  const name = h("input", { id: "new", autocomplete: "off", spellcheck: "false", required: true });
  const open = (event) => {
    event.preventDefault();
    const file = name.value.endsWith(".toml") ? name.value : `${name.value}.toml`;
    goTo(`/experiment/${fileId(`${folder.value}/${file}`)}`);
  };
  return h("section", { "aria-labelledby": "experiments" }, h("h2", { id: "experiments" }, "Experiments"),
    found.experiments.length ? table("Experiments", [
      ["File", "", (one) => h("a", { href: `/experiment/${one.id}` }, one.name)],
      ["Directory", "", (one) => one.folder],
    ], found.experiments) : h("p", null, "There is none yet."),
    h("form", { class: "fields", onsubmit: open },
      h("p", { class: "field" }, h("label", { for: "new" }, "A new one, called"), name),
      found.experiment_folders.length > 1 ? h("p", { class: "field" }, h("label", { for: "folder" }, "in"), folder) : null,
      h("p", { class: "field" }, h("button", null, "Open"))));
}

function processes(shown) {
  return table(plural(shown.length, "process"), [
    ["Name", "", (one) => h("a", { href: `/target/${one.id}/symbols` }, one.names.join(", "))],
    ["Number", "", (one) => one.pid],
    ["Libraries", "", (one) => h("a", { href: `/target/${one.id}`, "aria-label": `Libraries of ${one.names[0]} ${one.pid}` }, "libraries")],
  ], shown);
}

function programs(shown) {
  return table(plural(shown.length, "program"), [
    ["File", "", (one) => h("a", { href: `/target/${one.id}/symbols` }, one.path)],
  ], shown);
}
