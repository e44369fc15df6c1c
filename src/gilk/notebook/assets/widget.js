// SPDX-License-Identifier: LGPL-2.1-or-later
// The script that a notebook loads for a widget. It has the sources of all modules, and gives each view modules of its own.

const SOURCES = []; // [name, text], each after those that it imports; filled in by bundle.py
const STYLE = ""; // filled in by bundle.py

function loaded() {
  const places = {};
  for (const [name, text] of SOURCES) {
    const whole = text.replace(/( from ")\.\/([\w.]+)(";)/g, (_, before, other, after) => before + places[other] + after);
    places[name] = URL.createObjectURL(new Blob([whole], { type: "text/javascript" }));
  }
  const last = SOURCES.at(-1)[0];
  return Promise.all([import(places["talk.js"]), import(places[last])]).finally(() => Object.values(places).forEach((each) => URL.revokeObjectURL(each)));
}

async function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" });
  const style = new CSSStyleSheet();
  style.replaceSync(STYLE);
  root.adoptedStyleSheets = [style];
  const place = document.createElement("div");
  place.className = "gilk";
  root.append(place);
  const [talk, page] = await loaded();
  const take = talk.connect({
    send: (message) => model.send(message),
    pick: (points) => {
      model.set("points", points);
      model.save_changes();
    },
  });
  model.on("msg:custom", take);
  const leave = page.start(place, model.get("address"));
  return () => {
    model.off("msg:custom", take);
    leave();
  };
}

export default { render };
