// SPDX-License-Identifier: LGPL-2.1-or-later
// Shows in a widget the page that its address names, as main.js does in the window. Links to pages that the widget does not
// have are left out.

import { h, show } from "./dom.js";
import { refused } from "./frame.js";
import { addEventListener, dispatchEvent, history, location } from "./talk.js";

// `pages` are [pattern, page]. Returns the function that ends the page.
export function routed(place, pages, address) {
  let leave = null;
  const main = h("div");
  const said = h("p", { role: "status", class: "hint" });
  show(place, main, said);
  const page = (path) => pages.map(([pattern, each]) => [pattern.exec(path), each]).find(([match]) => match);

  async function go(to) {
    end();
    history.replaceState(null, "", to);
    place.dataset.ready = "no";
    const [match, each] = page(location.pathname);
    try {
      leave = (await each(main, ...match.slice(1))) ?? null;
    } catch (error) {
      if (error.name === "AbortError") return;
      show(main, refused(error));
    }
    place.dataset.ready = "yes";
  }

  function end() {
    dispatchEvent(new Event("gilk-leave"));
    leave?.();
    leave = null;
  }

  const links = new MutationObserver(() => {
    for (const link of place.querySelectorAll("a[href^='/']")) {
      const to = link.getAttribute("href");
      if (to.startsWith("/session/")) link.replaceWith(h("span", null, link.textContent)); // the subject of a sentence
      else if (!page(to.split("?")[0])) link.remove();
    }
  });
  links.observe(place, { childList: true, subtree: true });
  place.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='/']");
    if (!link) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  addEventListener("gilk-go", (event) => go(event.detail));
  addEventListener("gilk-again", () => go(location.pathname + location.search));
  addEventListener("gilk-notice", (event) => { said.textContent = event.detail; });
  go(address);
  return () => {
    links.disconnect();
    end();
  };
}
