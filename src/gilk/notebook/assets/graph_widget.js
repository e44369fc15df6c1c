// SPDX-License-Identifier: LGPL-2.1-or-later
// A function's blocks in a notebook.

import { func } from "./function.js";
import { routed } from "./routed.js";

export function start(place, address) {
  return routed(place, [[/^\/target\/([^/]+)\/function$/, func]], address);
}
