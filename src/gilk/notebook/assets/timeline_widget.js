// SPDX-License-Identifier: LGPL-2.1-or-later
// A trace in a notebook, with all of its pages.

import { routed } from "./routed.js";
import { timeline } from "./timeline.js";
import { anomalies, sql, traceFlame, tree } from "./views.js";

const VIEWS = { timeline, tree, flame: traceFlame, anomalies, sql };

export function start(place, address) {
  return routed(place, Object.entries(VIEWS).map(([name, page]) => [new RegExp(`^/file/([^/]+)/${name}$`), page]), address);
}
