// SPDX-License-Identifier: LGPL-2.1-or-later
// Looks again from time to time, while the page is visible.

const EVERY = 2000; // ms
const REST = 4; // a look may take one part in this many plus one of the time

// Call `look`, which returns a promise, every two seconds from then on, and less often if it takes long. Returns a function
// that ends this.
export function looking(look) {
  let over = false;
  async function turn() {
    if (document.hidden) await new Promise((seen) => addEventListener("visibilitychange", seen, { once: true }));
    const began = performance.now();
    try {
      if (!over) await look();
    } catch {
      // The server may be gone for a while; what is shown stays.
    }
    if (!over) setTimeout(turn, Math.max(EVERY, REST * (performance.now() - began)));
  }
  setTimeout(turn, EVERY);
  return () => {
    over = true;
  };
}
