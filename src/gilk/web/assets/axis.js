// SPDX-License-Identifier: LGPL-2.1-or-later
// The axes of plots: where a value is in pixels, and which values have a mark.

// An axis for values from `low` to `high`, from pixel `from` to pixel `to`.
export function axis(low, high, log, from, to) {
  const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const [begin, end] = a === b ? [a - 0.5, b + 0.5] : [a, b];
  return {
    at: (value) => from + ((to - from) * ((log ? Math.log10(value) : value) - begin)) / (end - begin),
    marks: log ? decades(begin, end) : steps(begin, end, Math.max(2, Math.abs(to - from) / 90)),
  };
}

// Powers of ten, at most about eight of them; steps, if there are fewer than two.
function decades(begin, end) {
  const [first, last] = [Math.ceil(begin - 1e-9), Math.floor(end + 1e-9)];
  if (last - first < 1) return steps(10 ** begin, 10 ** end, 4).filter((value) => value > 0);
  const every = Math.ceil((last - first + 1) / 8);
  return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, at) => 10 ** (first + at * every));
}

// Round numbers, about `many` of them.
function steps(begin, end, many) {
  const step = roundStep((end - begin) / many);
  const first = Math.ceil(begin / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(end / step + 1e-9) - first + 1) }, (_, at) => (first + at) * step);
}

// The least of 1, 2, 5, 10, 20, ... and of their tenths, hundredths, ... that is not below `rough`.
export function roundStep(rough) {
  const size = 10 ** Math.floor(Math.log10(rough));
  return size * ([1, 2, 5].find((each) => each * size >= rough) ?? 10);
}

export function told(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}
