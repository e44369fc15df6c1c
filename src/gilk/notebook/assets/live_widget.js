// SPDX-License-Identifier: LGPL-2.1-or-later
// The counts of a session, or the aggregations of a D program, in a notebook, as the window's page of a session shows them.

import { h, patch, renew, show } from "./dom.js";
import { aggregations } from "./growing.js";
import { routed } from "./routed.js";
import { Rates } from "./rows.js";
import { counts, facts } from "./session.js";
import { follow, get } from "./talk.js";

async function session(place) {
  const [above, grown, figures] = [h("div"), h("div"), h("div")];
  const rates = new Rates();
  const told = (state) => {
    patch(above, facts(state), state.end ? h("p", null, state.end) : null);
    renew(grown, state.aggregations, aggregations);
    renew(figures, [state.counts, state.end, rates.of(state)], ([found, end, now]) => counts({ counts: found, end }, now));
  };
  show(place, above, grown, figures);
  told(await get("/session/0.json"));
  return follow(0, told);
}

export function start(place, address) {
  return routed(place, [[/^\/session\/\d+$/, session]], address);
}
