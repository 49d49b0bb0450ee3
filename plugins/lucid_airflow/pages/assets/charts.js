// Small pictures of numbers, drawn as SVG: a row each, so that fifteen rows read as well as three.

import { amount, figure } from "./words.js";
import { h } from "./cards.js";

const { Button } = globalThis.ChakraUI;
const { useState } = globalThis.React;
const ROW = 26;
const LABEL = 190;
const WIDTH = 720;
const COLORS = ["blue", "gray", "orange", "green", "purple", "teal", "pink", "red", "yellow", "cyan"];
const paint = (name) => `var(--chakra-colors-${name}-solid)`;
const ink = "var(--chakra-colors-fg)";
const faint = "var(--chakra-colors-border)";

// The size is a style: the page's own style of all elements outweighs SVG's attribute.
const written = (size, place, ...words) => h("text", { fill: ink, style: { fontSize: size }, ...place }, ...words);

const straight = (value) => value;
const symlog = (value) => Math.sign(value) * Math.log10(1 + Math.abs(value) / 10);

const LONGEST = 24; // characters of a row's name; all of it is its tooltip
const TICKS = [0, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];
const TIME_TICKS = [0, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];
const APART = 60;
const NEAR = 100;

const cut = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}\u2026` : name);

// A scale from `least` to `most`, with the ticks that have room: linear, or where numbers go beyond 100 linear up to
// 10 and logarithmic beyond.
function scaled(least, most, unit) {
  const bent = Math.max(-least, most) > NEAR ? symlog : straight;
  const [from, to] = [bent(least), bent(most)];
  const x = (value) => LABEL + 14 + ((bent(value) - from) / (to - from || 1)) * (WIDTH - LABEL - 44);
  const candidates = unit === "s" ? TIME_TICKS : TICKS;
  const ticks = [];
  for (const tick of [...candidates, ...candidates.slice(1).map((value) => -value)]) {
    if (tick >= least && tick <= most && ticks.every((other) => Math.abs(x(other) - x(tick)) > APART)) ticks.push(tick);
  }
  return { x, ticks };
}

// A name and a line a row; the axis is above them, where it is seen with the first rows of many.
function Rows({ rows, axis, unit, label, children }) {
  const bottom = rows.length * ROW;
  const above = axis ? 24 : 0;
  return h(
    "svg",
    { viewBox: `0 ${-above} ${WIDTH} ${bottom + above}`, width: "100%", style: { maxWidth: WIDTH }, role: "img", "aria-label": label },
    rows.map((row, i) =>
      h("g", { key: i }, [
        written(13, { key: "t", x: LABEL - 8, y: i * ROW + 18, textAnchor: "end" }, `${cut(row.name, LONGEST - (row.aside?.length ?? 0))}${row.aside ?? ""}`, h("title", null, `${row.name}${row.aside ?? ""}`)),
        h("line", { key: "l", x1: LABEL, x2: WIDTH, y1: i * ROW + 14, y2: i * ROW + 14, stroke: faint }),
      ]),
    ),
    axis?.ticks.map((tick) =>
      h("g", { key: `tick ${tick}` }, [
        h("line", { key: "l", x1: axis.x(tick), x2: axis.x(tick), y1: 0, y2: bottom, stroke: faint }),
        written(12, { key: "t", x: axis.x(tick), y: -8, textAnchor: "middle" }, amount(tick, unit)),
      ]),
    ),
    children,
  );
}

// A change against each policy: the dot is the estimate, the bar its interval; left of 0 is better.
export function Changes({ rows, unit }) {
  const values = rows.flatMap((row) => [row.low ?? row.change, row.high ?? row.change, 0]);
  const axis = scaled(Math.min(...values), Math.max(...values), unit);
  const { x } = axis;
  const color = { better: paint("green"), worse: paint("red") };
  return h(
    Rows,
    { rows, axis, unit, label: `Change against each policy: ${rows.map((row) => `${row.name}: ${row.words}`).join("; ")}` },
    h("line", { x1: x(0), x2: x(0), y1: 0, y2: rows.length * ROW, stroke: ink, strokeDasharray: "3 3" }),
    rows.map((row, i) => {
      const y = i * ROW + 14;
      const fill = color[row.outcome] ?? paint("gray");
      return h(
        "g",
        { key: i },
        row.low != null && h("line", { x1: x(row.low), x2: x(row.high), y1: y, y2: y, stroke: fill, strokeWidth: 4 }),
        h("circle", { cx: x(row.change), cy: y, r: 6, fill }),
        h("title", null, `${row.name}: ${row.words}`),
      );
    }),
  );
}

// One dot a series in each row; series can be hidden, and of many rows the first are shown until all are asked for.
export function Dots({ rows, series, unit, first = 15 }) {
  const [hidden, setHidden] = useState({});
  const [all, setAll] = useState(false);
  const shown = series.filter((name) => !hidden[name]);
  const axis = scaled(0, Math.max(10, ...rows.flatMap((row) => series.map((name) => row[name] ?? 0))), unit);
  const seen = all ? rows : rows.slice(0, first);
  const color = (name) => paint(COLORS[series.indexOf(name) % COLORS.length]);
  return h(
    "div",
    null,
    h(
      "div",
      { role: "group", "aria-label": "Policies that are shown" },
      series.map((name) =>
        h(
          "label",
          { key: name, style: { marginRight: 14, whiteSpace: "nowrap", display: "inline-block" } },
          h("input", {
            type: "checkbox",
            checked: !hidden[name],
            onChange: () => setHidden({ ...hidden, [name]: !hidden[name] }),
            style: { marginRight: 4 },
          }),
          h("span", { style: { color: color(name) } }, "\u25cf "),
          name,
        ),
      ),
    ),
    h(
      Rows,
      { rows: seen, axis, unit, label: `By row: ${seen.map((row) => `${row.name}: ${shown.map((name) => `${name} ${amount(row[name], unit)}`).join(", ")}`).join("; ")}` },
      seen.map((row, i) =>
        [...shown].reverse().map((name) =>
          h(
            "circle",
            { key: `${i}${name}`, cx: axis.x(row[name] ?? 0), cy: i * ROW + 14, r: name === series[0] ? 7 : 5, fill: color(name), fillOpacity: 0.85 },
            h("title", null, `${row.name}, ${name}: ${amount(row[name], unit)}`),
          ),
        ),
      ),
    ),
    rows.length > first &&
      h(Button, { size: "xs", variant: "outline", onClick: () => setAll(!all) }, all ? `Only the first ${first}` : `All ${rows.length}`),
  );
}

// A value against its limit, as a bar that turns red where it is beyond.
export function AgainstLimit({ value, limit, passed, unit }) {
  if (value == null || limit == null) return null;
  const most = Math.max(Math.abs(value), Math.abs(limit)) || 1;
  const part = (number) => Math.max(0, Math.min(1, number / most)) * 150;
  const words = `${figure(value)} ${unit}, ${(value <= limit) === passed ? "at most" : "at least"} ${figure(limit)}`;
  return h(
    "figure",
    { style: { minWidth: 156 } },
    h(
      "svg",
      { width: 156, height: 18, role: "img", "aria-label": words },
      h("rect", { x: 2, y: 5, width: part(value), height: 8, fill: paint(passed === false ? "red" : "green") }),
      h("line", { x1: 2 + part(limit), x2: 2 + part(limit), y1: 1, y2: 17, stroke: ink, strokeWidth: 2 }),
    ),
    h("figcaption", { style: { fontSize: "0.8em" } }, words),
  );
}

const DECIDED = { ok: "green", watch: "orange", retrain: "red" };
const CURVE = { width: 460, height: 130, left: 52, right: 8, top: 10, bottom: 24 };

// One figure over the passes: points { at, value, decision }, its unit at the axis, which begins at `best`, and
// other figures to read it by as dashed lines: beside { NAME: value }.
export function Curve({ title, unit, points, best, beside }) {
  const measured = points.filter((point) => point.value != null);
  if (!measured.length) return null;
  const { width, height, left, right, top, bottom } = CURVE;
  const most = Math.max(best, ...measured.map((point) => point.value), ...Object.values(beside)) * 1.1 || 1;
  const times = measured.map((point) => new Date(point.at).getTime());
  const span = times.at(-1) - times[0];
  const x = (i) => (span ? left + 6 + ((times[i] - times[0]) / span) * (width - left - right - 12) : (left + width - right) / 2);
  const y = (value) => top + ((most - value) / (most - best)) * (height - top - bottom);
  const words = measured.map((point) => `${point.at.slice(0, 10)} ${figure(point.value)} ${unit}, ${point.decision}`).join("; ");
  return h(
    "figure",
    null,
    h("figcaption", { style: { fontSize: "0.85em" } }, title),
    h(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width: "100%", style: { maxWidth: width }, role: "img", "aria-label": `${title}: ${words}` },
      [best, (best + most) / 2, most].map((value) =>
        h("g", { key: value }, [
          h("line", { key: "l", x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: faint }),
          written(11, { key: "t", x: left - 6, y: y(value) + 4, textAnchor: "end" }, `${figure(value)} ${unit}`),
        ]),
      ),
      Object.entries(beside).map(([name, value], i) =>
        h("line", { key: name, x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: ink, strokeDasharray: i ? "1 4" : "5 4" }, h("title", null, `${name}: ${figure(value)} ${unit}`)),
      ),
      h("polyline", { points: measured.map((point, i) => `${x(i)},${y(point.value)}`).join(" "), fill: "none", stroke: paint("blue"), strokeWidth: 2 }),
      measured.map((point, i) =>
        h("circle", { key: i, cx: x(i), cy: y(point.value), r: 4, fill: paint(DECIDED[point.decision] ?? "gray") }, h("title", null, `${point.at.slice(0, 10)}: ${figure(point.value)} ${unit}, ${point.decision}`)),
      ),
      written(11, { x: x(0), y: height - 6, textAnchor: span ? "start" : "middle" }, measured[0].at.slice(0, 10)),
      span > 0 && written(11, { x: x(measured.length - 1), y: height - 6, textAnchor: "end" }, measured.at(-1).at.slice(0, 10)),
    ),
  );
}

// A bar a row, each with its number.
export function Bars({ title, rows }) {
  const named = Object.entries(rows).map(([name, value]) => ({ name, value }));
  const most = Math.max(...named.map((row) => row.value), 0) || 1;
  return h(
    "figure",
    null,
    h("figcaption", null, title),
    h(
      Rows,
      { rows: named, label: title },
      named.map((row, i) => {
        const length = Math.max(0, row.value / most) * (WIDTH - LABEL - 110);
        return h(
          "g",
          { key: i },
          h("rect", { x: LABEL, y: i * ROW + 6, width: length, height: 16, fill: paint("blue") }),
          written(13, { x: LABEL + length + 6, y: i * ROW + 18 }, figure(row.value)),
        );
      }),
    ),
  );
}

// A bar a day, with a scale at the left and the first and last day below. `days`: ISO day -> number; days that
// are missing in between count 0.
export function DailyBars({ title, days }) {
  const [left, right, top, bottom] = [56, WIDTH - 8, 8, 120];
  const firstMs = Date.parse(Object.keys(days)[0]);
  const dayOf = (iso) => Math.round((Date.parse(iso) - firstMs) / 86_400_000);
  const total = dayOf(Object.keys(days).at(-1)) + 1;
  const most = Math.max(...Object.values(days), 1);
  const width = (right - left) / total;
  const y = (value) => bottom - (value / most) * (bottom - top);
  return h(
    "figure",
    null,
    h("figcaption", null, title),
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${bottom + 20}`, width: "100%", style: { maxWidth: WIDTH }, role: "img", "aria-label": `${title}: at most ${figure(most)}, over ${total} days` },
      [0, 0.5, 1].map((part) =>
        h("g", { key: part }, [
          h("line", { key: "l", x1: left, x2: right, y1: y(part * most), y2: y(part * most), stroke: faint }),
          written(12, { key: "t", x: left - 6, y: y(part * most) + 4, textAnchor: "end" }, figure(part * most)),
        ]),
      ),
      Object.entries(days).map(([iso, value]) =>
        h(
          "rect",
          { key: iso, x: left + dayOf(iso) * width, width: Math.max(width - (width > 4 ? 1 : 0), 0.5), y: y(value), height: bottom - y(value), fill: paint("blue") },
          h("title", null, `${iso}: ${figure(value)}`),
        ),
      ),
      written(12, { x: left, y: bottom + 16, textAnchor: "start" }, Object.keys(days)[0]),
      total > 1 && written(12, { x: right, y: bottom + 16, textAnchor: "end" }, Object.keys(days).at(-1)),
    ),
  );
}
