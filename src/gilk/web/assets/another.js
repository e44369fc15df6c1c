// SPDX-License-Identifier: LGPL-2.1-or-later
// An address with a new key, for another browser.

import { h, show, trouble } from "./dom.js";
import { notice } from "./frame.js";
import { post } from "./talk.js";

// A button, and below it the address once it was pressed. The address is that of this page's server as this browser knows it.
export function anotherBrowser() {
  const place = h("div", { role: "status" });
  return h("section", { "aria-label": "Another browser" },
    h("p", null, h("button", { onclick: () => asked(place) }, "Open in another browser")), place);
}

let last = 0;

async function asked(place) {
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
