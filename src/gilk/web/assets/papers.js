// SPDX-License-Identifier: LGPL-2.1-or-later
// The pages to read: the doctor's findings, the documentation, and the page about gilk.

import { h, lines as broken, show, table } from "./dom.js";
import { command } from "./frame.js";
import { get } from "./talk.js";

const WORDS = { ok: "works", warn: "with a limit", missing: "missing" };

export async function doctor(place) {
  show(place, h("h1", null, "Doctor"), h("p", { role: "status" }, "Trying things out …"));
  const found = await get("/doctor.json");
  show(place, h("h1", null, "Doctor"),
    h("p", null, found.ok ? "gilk works on this machine." : "gilk does not work on this machine: something is missing."),
    table("Findings", [
      ["State", "word", (one) => h("span", { class: `state ${one.status}` }, WORDS[one.status])],
      ["Check", "word", (one) => one.name],
      ["Found, and what it is about", "told", (one) => [one.found, h("div", { class: "hint" }, one.means),
        one.status === "ok" || !one.fix ? null : h("p", null, `→ ${one.fix}`)]],
    ], found.checks),
    command(found.command));
}

export async function about(place) {
  const found = await get("/about.json");
  show(place, h("h1", null, "About"),
    h("p", null, `gilk ${found.version}, ${found.licence}. The window's scripts are part of it; it loads nothing from elsewhere.`),
    h("p", null, "Everything that is done here is written to ", h("code", null, found.audit), "."));
}

const PARTS = [["", ""], ["cli/", "Commands"], ["d/", "D"], ["aspect/", "Aspects"]]; // the directories of the documentation

export async function help(place, page) {
  if (!page) {
    const { pages, titles } = await get("/help.json");
    show(place, h("h1", null, "Help"), PARTS.map(([folder, heading]) => h("section", null, heading ? h("h2", null, heading) : null,
      h("ul", { class: "columns" }, pages.filter((name) => name.slice(0, name.lastIndexOf("/") + 1) === folder)
        .map((name) => h("li", null, h("a", { href: `/help/${name}` }, titles[name])))))));
    return;
  }
  const found = await get(`/help.json?page=${encodeURIComponent(page)}`);
  named.clear();
  show(place, h("article", { class: "manual" }, [...blocks(found.text, page)]));
  const asked = document.getElementById(`at-${location.hash.slice(1)}`);
  if (!asked) return;
  asked.setAttribute("tabindex", "-1");
  asked.focus();
  asked.scrollIntoView();
}

const named = new Set(); // the places that the page shown has

// The id of a place of a page, which addresses name behind a #: as GitHub makes it of a heading. Null if there is one already.
function idOf(text) {
  const id = `at-${text.trim().toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-")}`;
  if (named.has(id)) return null;
  named.add(id);
  return id;
}

// Elements for a text in Markdown, as far as the documentation uses it.
function* blocks(text, page) {
  const lines = text.split("\n");
  while (lines.length) {
    const line = lines.shift();
    const heading = /^(#+) (.*)/.exec(line);
    if (line.startsWith("```")) {
      const code = [];
      while (lines.length && !lines[0].startsWith("```")) code.push(lines.shift());
      lines.shift();
      yield example(code);
    } else if (heading) yield h(`h${Math.min(heading[1].length, 4)}`, { id: idOf(heading[2]) }, ...inline(heading[2], page));
    else if (line.startsWith("|")) yield rows([line, ...taken(lines, (each) => each.startsWith("|"))], page);
    else if (/^( {4}|\t)\S/.test(line)) yield example([line, ...taken(lines, (each) => /^( {4}|\t)/.test(each))].map((each) => each.replace(/^( {4}|\t)/, "")));
    else if (/^\s*([-*]|\d+\.) /.test(line)) {
      const items = [line];
      for (const each of taken(lines, (next) => next.trim() && !next.startsWith("#") && !next.startsWith("```"))) {
        if (/^\s*([-*]|\d+\.) /.test(each)) items.push(each);
        else items[items.length - 1] += ` ${each.trim()}`;
      }
      yield h("ul", null, items.map((each) => h("li", null, ...inline(each.replace(/^\s*([-*]|\d+\.) /, ""), page))));
    } else if (/^(!\[|<!--)/.test(line)) continue; // pictures, which are for pages elsewhere, and comments
    else if (line.trim()) {
      const more = taken(lines, (each) => each.trim() && !/^(#|```|\||[-*] )/.test(each));
      yield h("p", null, ...inline([line, ...more].join(" "), page));
    }
  }
}

function example(code) {
  return h("pre", { tabindex: 0, "aria-label": "Example" }, broken(code.join("\n")));
}

function taken(lines, wanted) {
  const found = [];
  while (lines.length && wanted(lines[0])) found.push(lines.shift());
  return found;
}

function rows(lines, page) {
  const cells = (line) => line.replaceAll("\\|", "\u0001").split("|").slice(1, -1).map((each) => each.replaceAll("\u0001", "|").trim());
  const [head, , ...body] = lines.map(cells);
  return h("table", null, h("thead", null, h("tr", null, head.map((each) => (each ? h("th", { scope: "col" }, ...inline(each, page)) : h("td"))))),
    h("tbody", null, body.map((row) => h("tr", { id: /^`[\w-]+`$/.test(row[0]) ? idOf(row[0]) : null }, row.map((each) => h("td", null, ...inline(each, page)))))));
}

function inline(text, page) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/).filter(Boolean).map((part) => {
    if (part.length > 2 && part.startsWith("`")) return h("code", null, part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**")) return h("strong", null, part.slice(2, -2));
    const link = /^\[([^\]]+)\]\(([^)#]*)(#[^)]*)?\)$/.exec(part);
    if (!link) return part;
    const path = new URL(link[2] || `${page}.md`.split("/").pop(), `http://x/help/${page}`).pathname;
    return path.startsWith("/help/") && path.endsWith(".md") ? h("a", { href: `${path.slice(0, -3)}${link[3] ?? ""}` }, ...inline(link[1], page)) : link[1].replaceAll("`", "");
  });
}
