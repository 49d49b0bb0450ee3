// Small pictures of numbers, drawn as SVG: a row each, so that fifteen rows read as well as three.

import { figure } from "./words.js";
import { h } from "./cards.js";

const { useState } = globalThis.React;
const ROW = 26;
const LABEL = 190;
const WIDTH = 720;
const COLORS = ["blue", "gray", "orange", "green", "purple", "teal", "pink", "red", "yellow", "cyan"];
const paint = (name) => `var(--chakra-colors-${name}-solid)`;
const ink = "var(--chakra-colors-fg)";
const faint = "var(--chakra-colors-border)";

const symlog = (value) => Math.sign(value) * Math.log10(1 + Math.abs(value) / 10);

function Rows({ rows, height, label, children }) {
  return h(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${height}`, width: "100%", style: { maxWidth: WIDTH }, role: "img", "aria-label": label },
    rows.map((row, i) =>
      h("g", { key: i }, [
        h("text", { key: "t", x: LABEL - 8, y: i * ROW + 18, textAnchor: "end", fontSize: 13, fill: ink }, row.name),
        h("line", { key: "l", x1: LABEL, x2: WIDTH, y1: i * ROW + 14, y2: i * ROW + 14, stroke: faint }),
      ]),
    ),
    children,
  );
}

// A change against each policy: the dot is the estimate, the bar its interval; left of 0 is better.
export function Changes({ rows, unit }) {
  const values = rows.flatMap((row) => [row.low ?? row.change, row.high ?? row.change, 0]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const x = (value) => LABEL + 10 + ((value - least) / (most - least || 1)) * (WIDTH - LABEL - 20);
  const color = { better: paint("green"), worse: paint("red") };
  return h(
    Rows,
    { rows, height: rows.length * ROW + 26, label: `Change against each policy, ${unit}` },
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
    [least, 0, most]
      .filter((value) => value === 0 || Math.abs(x(value) - x(0)) > 90)
      .map((value) =>
        h(
          "text",
          { key: value, x: x(value), y: rows.length * ROW + 18, fontSize: 12, fill: ink, textAnchor: value < 0 ? "start" : value > 0 ? "end" : "middle" },
          `${figure(value)} ${unit}`,
        ),
      ),
  );
}

// One dot a series in each row, on an axis that is linear up to 10 and logarithmic beyond.
export function Dots({ rows, series, unit }) {
  const [hidden, setHidden] = useState({});
  const shown = series.filter((name) => !hidden[name]);
  const most = Math.max(10, ...rows.flatMap((row) => series.map((name) => row[name] ?? 0)));
  const x = (value) => LABEL + 10 + (symlog(value) / symlog(most)) * (WIDTH - LABEL - 20);
  const ticks = [0, 10, 100, 1_000, 10_000, 100_000].filter((tick) => tick <= most);
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
          { key: name, style: { marginRight: 14, whiteSpace: "nowrap" } },
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
      { rows, height: rows.length * ROW + 26, label: `By virtual cluster, ${unit}` },
      rows.map((row, i) =>
        shown.map((name) =>
          h(
            "circle",
            { key: `${i}${name}`, cx: x(row[name] ?? 0), cy: i * ROW + 14, r: name === series[0] ? 7 : 5, fill: color(name) },
            h("title", null, `${row.name}, ${name}: ${figure(row[name])} ${unit}`),
          ),
        ),
      ),
      ticks.map((tick) =>
        h("text", { key: tick, x: x(tick), y: rows.length * ROW + 18, fontSize: 12, fill: ink, textAnchor: "middle" }, figure(tick)),
      ),
    ),
  );
}

// A value against its limit, as a bar that turns red where it is beyond.
export function AgainstLimit({ value, limit, passed }) {
  if (value == null || limit == null) return null;
  const most = Math.max(Math.abs(value), Math.abs(limit)) || 1;
  const part = (number) => Math.max(0, Math.min(1, number / most)) * 150;
  return h(
    "svg",
    { width: 156, height: 18, role: "img", "aria-label": `${figure(value)} against a limit of ${figure(limit)}` },
    h("rect", { x: 2, y: 5, width: part(value), height: 8, fill: paint(passed === false ? "red" : "green") }),
    h("line", { x1: 2 + part(limit), x2: 2 + part(limit), y1: 1, y2: 17, stroke: ink, strokeWidth: 2 }),
  );
}

const DECIDED = { ok: "green", watch: "orange", retrain: "red" };
const CURVE = { width: 460, height: 120, left: 52, right: 8, top: 8, bottom: 22 };

// One figure over the passes: points { at, value, decision }, its unit at the axis, and what it was expected to be.
export function Curve({ title, unit, points, expected }) {
  const measured = points.filter((point) => point.value != null);
  if (!measured.length) return null;
  const { width, height, left, right, top, bottom } = CURVE;
  const values = [...measured.map((point) => point.value), ...(expected == null ? [] : [expected])];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = (high - low) * 0.15 || Math.abs(high) * 0.15 || 1;
  const [least, most] = [Math.max(0, low - pad), high + pad];
  const times = measured.map((point) => new Date(point.at).getTime());
  const span = times.at(-1) - times[0];
  const x = (i) => (span ? left + 6 + ((times[i] - times[0]) / span) * (width - left - right - 12) : (left + width - right) / 2);
  const y = (value) => top + ((most - value) / (most - least)) * (height - top - bottom);
  const label = (props, text) => h("text", { fontSize: 11, fill: ink, ...props }, text);
  const words = measured.map((point) => `${point.at.slice(0, 10)} ${figure(point.value)} ${unit}, ${point.decision}`).join("; ");
  return h(
    "figure",
    null,
    h("figcaption", { style: { fontSize: "0.85em" } }, title),
    h(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width: "100%", style: { maxWidth: width }, role: "img", "aria-label": `${title}: ${words}` },
      [low, high].filter((value, i) => i === 0 || high - low > pad / 10).map((value) =>
        h("g", { key: value }, [
          h("line", { key: "l", x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: faint }),
          label({ key: "t", x: left - 6, y: y(value) + 4, textAnchor: "end" }, `${figure(value)} ${unit}`),
        ]),
      ),
      expected != null && h("line", { x1: left, x2: width - right, y1: y(expected), y2: y(expected), stroke: ink, strokeDasharray: "4 3" }, h("title", null, `At validation: ${figure(expected)} ${unit}`)),
      h("polyline", { points: measured.map((point, i) => `${x(i)},${y(point.value)}`).join(" "), fill: "none", stroke: paint("blue"), strokeWidth: 2 }),
      measured.map((point, i) =>
        h("circle", { key: i, cx: x(i), cy: y(point.value), r: 4, fill: paint(DECIDED[point.decision] ?? "gray") }, h("title", null, `${point.at.slice(0, 10)}: ${figure(point.value)} ${unit}, ${point.decision}`)),
      ),
      label({ x: x(0), y: height - 6, textAnchor: span ? "start" : "middle" }, measured[0].at.slice(0, 10)),
      span > 0 && label({ x: x(measured.length - 1), y: height - 6, textAnchor: "end" }, measured.at(-1).at.slice(0, 10)),
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
      { rows: named, height: named.length * ROW, label: title },
      named.map((row, i) => {
        const length = Math.max(0, row.value / most) * (WIDTH - LABEL - 110);
        return h(
          "g",
          { key: i },
          h("rect", { x: LABEL, y: i * ROW + 6, width: length, height: 16, fill: paint("blue") }),
          h("text", { x: LABEL + length + 6, y: i * ROW + 18, fontSize: 13, fill: ink }, figure(row.value)),
        );
      }),
    ),
  );
}
