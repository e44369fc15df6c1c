// SPDX-License-Identifier: LGPL-2.1-or-later
// The page on which the user writes a D program for a process or for the kernel of a machine. The program is checked while it is
// typed, previewed, and begun.

import { h, isMachine, lines, number, plural, helpAbout, show, trouble } from "./dom.js";
import { command, goTo } from "./frame.js";
import { get, post } from "./talk.js";
import { Editor } from "./editor.js";
import { workload, workloadField } from "./pane.js";

const OF_A_PROCESS = [
  ["calls by function", "pid$target:a.out::entry\n{\n\t@calls[probefunc] = count();\n}\n"],
  ["times of main's callees", "pid$target:a.out::entry\n{\n\tself->began[probefunc] = timestamp;\n}\n\npid$target:a.out::return\n/self->began[probefunc]/\n{\n\t@times[probefunc] = quantize(timestamp - self->began[probefunc]);\n\tself->began[probefunc] = 0;\n}\n"],
  ["sizes asked of malloc", "pid$target:libc.so.6:malloc:entry\n{\n\t@sizes = quantize(arg0);\n}\n"],
  ["system calls", "syscall:::entry\n{\n\t@calls[probefunc] = count();\n}\n"],
  ["where it is, 97 times a second", "profile-97\n/arg1/\n{\n\t@functions[ufunc(arg1)] = count();\n}\n"],
];
const OF_THE_KERNEL = [
  ["system calls by program", "syscall:::entry\n{\n\t@calls[execname, probefunc] = count();\n}\n"],
  ["time in a function", "fbt::pipe_write:entry\n{\n\tself->began = timestamp;\n}\n\nfbt::pipe_write:return\n/self->began/\n{\n\t@times[execname] = quantize(timestamp - self->began);\n\tself->began = 0;\n}\n"],
  ["who calls a function", "fbt::pipe_write:entry\n{\n\t@stacks[stack()] = count();\n}\n"],
  ["bytes read, by program", "syscall::read:return\n/(int)arg0 > 0/\n{\n\t@sizes[execname] = quantize(arg0);\n}\n"],
  ["who waits, and where", "sched:::sleep\n{\n\t@stacks[execname, stack()] = count();\n}\n"],
  ["where the kernel is, 97 times a second", "profile-97\n/arg0/\n{\n\t@stacks[stack()] = count();\n}\n"],
];
const SHORT = 6000; // letters of an address that may be sent in full
const REST = 120; // ms without a key before a program is checked
const KEPT = 500; // ms before the address is changed: browsers refuse more frequent changes

export async function program(place, id) {
  const asked = new URLSearchParams(location.search).get("text");
  const about = await get(`/target/${id}/d.json`);
  const draft = `d ${id}`;
  const kernel = isMachine(id);
  const examples = kernel ? OF_THE_KERNEL : OF_A_PROCESS;
  const first = asked ?? sessionStorage.getItem(draft) ?? examples[0][1];
  let [waiting, keeping, checking] = [0, 0, null];

  function ask(what, more, signal) {
    const given = { text: editor.text, ...more, ...(kernel ? { workload: workload(id) } : {}) };
    const address = `/target/${id}/d/${what}.json`;
    const query = new URLSearchParams(given).toString();
    return query.length < SHORT ? get(`${address}?${query}`, signal) : post(address, given, signal);
  }

  const said = h("div", { id: "problems", role: "status", "aria-label": "Problems" });
  const planned = h("div", { role: "status", "aria-label": "Preview" });
  const wrong = h("div", { role: "alert" });
  const same = h("div");
  let whole = null;

  function typed() {
    clearTimeout(waiting);
    clearTimeout(keeping);
    waiting = setTimeout(check, REST);
    keeping = setTimeout(keep, KEPT);
    show(planned);
    show(wrong);
    example.value = exampleOf(examples, editor.text);
  }

  function keep() {
    sessionStorage.setItem(draft, editor.text);
    const query = new URLSearchParams({ text: editor.text }).toString();
    history.replaceState(null, "", query.length < SHORT ? `${location.pathname}?${query}` : location.pathname);
  }

  async function check() {
    checking?.abort();
    checking = new AbortController();
    const text = editor.text;
    try {
      const found = await ask("check", {}, checking.signal);
      if (text !== editor.text) return;
      editor.told(found.problems.filter((one) => one.start !== null).map((one) => [one.start, one.end, one.message]),
        found.descriptions.map((one) => [one.start, plural(one.probes, "probe")]));
      show(said, verdict(found, editor));
      alike(found);
    } catch (error) {
      if (error.name !== "AbortError" && text === editor.text) show(said, failed(error));
    }
    said.dataset.of = String(text.length);
  }

  function alike(found) {
    const open = whole?.open ?? false;
    whole = command(found.command, found.python);
    whole.open = open;
    show(same, whole);
  }

  const editor = new Editor(first, (text, at) => ask("words", { at }), typed);
  const preview = h("button", { onclick: async () => {
    show(planned, h("p", null, "Planning …"));
    preview.disabled = true;
    try {
      show(planned, plan(await ask("preview", {})));
    } catch (error) {
      show(planned, failed(error));
    }
    preview.disabled = false;
  } }, "Preview");
  const run = h("button", { class: "main", disabled: !about.acts, onclick: async () => {
    run.disabled = true;
    show(wrong, h("p", null, "Compiling, and putting it in …"));
    try {
      const session = kernel ? await post("/session/machine/d", { text: editor.text, workload: workload(id) })
        : await post("/session/d", { target: id, text: editor.text });
      keep();
      goTo(`/session/${session.number}`);
    } catch (error) {
      show(wrong, h("p", null, trouble(error, "Nothing was put in.")));
      run.disabled = false;
    }
  } }, "Begin");
  const example = h("select", { id: "example", onchange: () => {
    if (!examples[example.value]) return;
    editor.field.value = examples[example.value][1];
    editor.typed({ inputType: "delete" });
    editor.close();
  } }, h("option", { value: "-1" }, "none: the program is your own"),
  examples.map(([name], index) => h("option", { value: String(index) }, name)));
  example.value = exampleOf(examples, first);

  show(place,
    h("h1", null, `D program for ${about.title}`),
    h("p", null, kernel ? "It sees all that happens in the kernel, for whichever program; $target is the command's process. " : "$target is this process. ", h("a", { href: "/help/d/README" }, "The language"), ", ",
      h("a", { href: "/help/d/providers" }, "its probes"), ", ", h("a", { href: "/help/d/actions" }, "what it can do"), "."),
    h("div", { class: "fields" },
      h("p", { class: "field" }, h("label", { for: "example" }, "Example"), example)),
    h("p", { class: "field" }, h("label", { for: "program" }, "Program"),
      h("span", { id: "keys", class: "hint" }, "Ctrl-Space lists the words that may stand at the cursor. Tab leaves the field.")),
    editor.place, said,
    workloadField(id, check),
    h("p", { class: "acts" }, preview, run),
    about.acts ? null : h("p", null, "This window only looks; the command below runs the program."),
    planned, wrong, same);
  editor.draw();
  await check();
  return () => {
    clearTimeout(waiting);
    clearTimeout(keeping);
    checking?.abort();
    if (editor.text !== first) sessionStorage.setItem(draft, editor.text);
  };
}

function exampleOf(examples, text) {
  return String(examples.findIndex(([, one]) => one === text));
}

// The problems of a program, each with a button that leads to its place; or a text that there are none.
function verdict(found, editor) {
  if (!found.problems.length) {
    return h("p", { class: "state ok" }, `Nothing is wrong with it. It is about ${plural(found.probes, "probe")}.`);
  }
  return h("ul", { class: "problems" }, found.problems.map((one) => h("li", null,
    one.start === null ? null : h("button", { onclick: () => editor.goTo(one.start, one.end) }, `line ${one.line}, column ${one.column}`),
    one.message.split("\n").flatMap((line) => [line, " "]),
    h("a", { href: one.tag ? helpAbout(one.tag, "d/errors") : helpAbout(one.slug) }, one.tag ? `${one.tag} (${one.slug})` : one.slug),
    one.hint ? h("span", { class: "hint" }, ` ${one.hint}`) : null)));
}

function failed(error) {
  return h("p", { class: "state missing" }, trouble(error));
}

function plan(found) {
  const ways = Object.entries(found.tactics).map(([name, count]) => `${number(count)} by ${name}`).join(", ");
  const refused = found.refused_probes;
  return h("section", { class: refused ? "outcome some" : "outcome" },
    h("h2", null, "Preview"),
    h("p", null, found.places ? `${plural(found.probes, "probe")} at ${plural(found.places, "place")} in its code${ways ? `: ${ways}` : ""}. `
      : found.probes ? `${plural(found.probes, "probe")}, for which no code is changed. ` : "",
      found.own ? `${plural(found.own, "probe")} by the clock or of the tracing itself. ` : "",
      refused ? `${plural(refused, "probe")} cannot be had, wholly or in part:` : "All can be had. Nothing is written yet."),
    refused ? h("ul", null, found.refused.map((one) => h("li", null, `${one.probe}: `,
      Object.entries(one.reasons).map(([name, count]) =>
        [h("a", { href: helpAbout(name, "refusals") }, name), `${found.reasons[name] ? `: ${found.reasons[name]}` : ""}${one.places > 1 ? ` (${number(count)} of ${plural(one.places, "place")})` : ""}. `])))) : null,
    refused > found.refused.length ? h("p", null, `and ${plural(refused - found.refused.length, "probe")} more`) : null);
}
