// The result of a what-if as pictures, each with its numbers as a table, for all jobs or one virtual cluster.

import { Arrow, Card, Folded, Out, Problem, Rows, Time, Waiting, h } from "./cards.js";
import { Dots } from "./charts.js";
import { Plot } from "./plots.js";
import { GradeCard } from "./wait_grade.js";
import { Waits } from "./what_if_waits.js";
import { address, useLook } from "./reading.js";
import { duration, figure, withInterval } from "./words.js";

const { HStack, Heading, NativeSelect, Text, VStack } = globalThis.ChakraUI;
const { useState } = globalThis.React;

const METRICS = { mean_jct_s: "Mean JCT", mean_queuing_delay_s: "Mean queuing" };
const TICKS = [[1, "1 s"], [60, "1 min"], [3_600, "1 h"], [86_400, "1 d"], [604_800, "1 w"]];
const DASHES = ["solid", "dot"];

// One color a policy, one dash a number of nodes.
function styles(variants) {
  const policies = [...new Set(variants.map(({ policy }) => policy))];
  const nodes = [...new Set(variants.map((variant) => variant.nodes))];
  return Object.fromEntries(
    variants.map((variant) => [
      variant.name,
      { color: policies.indexOf(variant.policy), dash: DASHES[nodes.indexOf(variant.nodes) % DASHES.length] },
    ]),
  );
}

const inHours = (seconds) => (seconds == null ? null : seconds / 3_600);

const drawMeans = (variants) => (colors) => ({
  traces: Object.keys(METRICS).map((metric, i) => ({
    type: "scatter",
    mode: "markers",
    marker: { size: 10, color: colors.series[0] },
    showlegend: false,
    xaxis: i ? "x2" : "x",
    y: variants.map(({ name }) => name),
    x: variants.map((variant) => inHours(variant[metric])),
    error_x: {
      type: "data",
      symmetric: false,
      array: variants.map((variant) => inHours((variant[`${metric}_high`] ?? variant[metric]) - variant[metric])),
      arrayminus: variants.map((variant) => inHours(variant[metric] - (variant[`${metric}_low`] ?? variant[metric]))),
    },
    hovertemplate: `%{y}<br>${METRICS[metric]} %{x:.2f} h<extra></extra>`,
  })),
  layout: {
    grid: { rows: 1, columns: 2, subplots: [["xy", "x2y"]] },
    xaxis: { title: { text: "Mean JCT (h)" }, rangemode: "tozero" },
    xaxis2: { title: { text: "Mean queuing (h)" }, rangemode: "tozero" },
    yaxis: { autorange: "reversed", type: "category" },
  },
});

const drawDistribution = (variants, styleOf) => (colors) => ({
  traces: variants.map(({ name, distribution: { value, share } }) => {
    const first = share[value.findLastIndex((wait) => wait <= 1)] ?? 0;
    const later = value.map((wait, i) => [wait, share[i]]).filter(([wait]) => wait > 1);
    return {
      type: "scatter",
      mode: "lines",
      name,
      line: { shape: "hv", color: colors.series[styleOf[name].color % 10], dash: styleOf[name].dash },
      x: [1, ...later.map(([wait]) => wait)],
      y: [100 * first, ...later.map((point) => 100 * point[1])],
      hovertemplate: "%{y:.1f} % waited at most %{x:,.0f} s<extra>%{fullData.name}</extra>",
    };
  }),
  layout: {
    xaxis: { title: { text: "Wait" }, type: "log", tickvals: TICKS.map(([at]) => at), ticktext: TICKS.map(([, text]) => text) },
    yaxis: { title: { text: "Jobs (%)" }, range: [0, 101] },
  },
});

const drawTime = (pictures, styleOf, gpus) => (colors) => {
  const x = pictures.at_ms;
  const band = (variant, curve, axis) => {
    const color = colors.series[styleOf[variant.name].color % 10];
    const shared = { type: "scatter", mode: "lines", x, yaxis: axis, legendgroup: variant.name, name: variant.name };
    const edge = { ...shared, line: { width: 0, shape: "hv", color }, showlegend: false, hoverinfo: "skip" };
    return [
      { ...edge, y: variant[curve].least },
      { ...edge, y: variant[curve].most, fill: "tonexty", opacity: 0.3 },
      {
        ...shared,
        y: variant[curve].mean,
        line: { width: 1.5, shape: "hv", color, dash: styleOf[variant.name].dash },
        showlegend: axis === "y",
        customdata: variant[curve].least.map((least, i) => [least, variant[curve].most[i]]),
        hovertemplate: "%{y:,.1f} (%{customdata[0]:,} to %{customdata[1]:,})<extra>%{fullData.name}</extra>",
      },
    ];
  };
  return {
    traces: pictures.variants.flatMap((variant) => [...band(variant, "waiting_jobs", "y"), ...band(variant, "gpus_in_use", "y2")]),
    layout: {
      xaxis: { type: "date", anchor: "y2" },
      yaxis: { title: { text: "Jobs that wait" }, domain: [0.54, 1], rangemode: "tozero" },
      yaxis2: { title: { text: `GPUs in use of ${gpus}` }, domain: [0, 0.46], rangemode: "tozero" },
      hovermode: "x unified",
    },
  };
};

const changeWords = (change) =>
  !change ? "–" : change.change_pct == null ? `${duration(change.difference_s)}, ${change.outcome}` : `${figure(change.change_pct)} %, ${change.outcome}`;

const leftOut = (variant) => [
  ...Object.entries(variant.skipped).map(([rule, jobs]) => `${figure(jobs)} ${rule.replaceAll("_", " ")}`),
  ...(variant.left_waiting ? [`${figure(variant.left_waiting)} left the queue, as in the log (${figure(variant.would_have_started)} would have started)`] : []),
];

const Variants = ({ variants, reference }) =>
  h(Rows, {
    columns: ["Variant", "Nodes", "GPUs", "Jobs", "Mean JCT", `against ${reference}`, "Mean queuing", `against ${reference} `, "P99 queuing", "Longest wait", "Preemptions", "Left out"],
    rows: variants.map((each) =>
      each.error
        ? [each.name, each.nodes, h(Text, { color: "fg.error" }, each.error), ...Array(9).fill("")]
        : [
            each.name,
            each.nodes,
            figure(each.gpus),
            figure(each.jobs),
            withInterval(each.mean_jct_s, each.mean_jct_s_low, each.mean_jct_s_high),
            changeWords(each.change?.mean_jct_s),
            withInterval(each.mean_queuing_delay_s, each.mean_queuing_delay_s_low, each.mean_queuing_delay_s_high),
            changeWords(each.change?.mean_queuing_delay_s),
            duration(each.p99_queuing_delay_s),
            duration(each.longest_wait_s),
            figure(each.preemptions),
            leftOut(each).join(", "),
          ],
    ),
  });

function byVirtualCluster(rows) {
  const named = {};
  for (const row of rows) {
    named[row.virtual_cluster] ??= { name: `${row.virtual_cluster} (${figure(row.jobs)} jobs)` };
    named[row.virtual_cluster][row.variant] = row.mean_queuing_delay_s;
  }
  return Object.values(named);
}

function OverTime({ runId, virtualCluster, styleOf, variants }) {
  const [span, setSpan] = useState(null);
  const path = `what-if/kept/${encodeURIComponent(runId)}/pictures`;
  const of = virtualCluster ? `&virtual_cluster=${encodeURIComponent(virtualCluster)}` : "";
  const whole = useLook(`${path}?points=600${of}`);
  const closer = useLook(span && whole.value && `${path}?points=600${of}&from_s=${span[0]}&until_s=${span[1]}`);
  const { value, problem } = whole;
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const pictures = (span && closer.value) || value;
  const zoom = (ends) => {
    const seconds = ends?.map((end) => (Date.parse(`${String(end).replace(" ", "T")}Z`) - value.origin_ms) / 1_000);
    setSpan(seconds && seconds[1] > seconds[0] ? seconds : null);
  };
  const gpus = Math.max(...variants.map((variant) => variant.gpus ?? 0));
  return [
    h(
      Card,
      { key: "waits", title: "How long jobs wait" },
      h(Plot, { draw: drawDistribution(value.variants, styleOf), of: value, label: "The share of jobs that waited at most so long, by variant" }),
      h(Text, { color: "fg.muted" }, "A curve begins at the share of jobs that waited at most a second; every point is a wait of the replay."),
      h(Folded, {
        columns: ["Variant", ...TICKS.map(([, text]) => `waited at most ${text} (%)`), "longest"],
        rows: value.variants.map(({ name, distribution }) => [
          name,
          ...TICKS.map(([at]) => figure(100 * (distribution.share[distribution.value.findLastIndex((wait) => wait <= at)] ?? 0))),
          duration(distribution.value.at(-1)),
        ]),
      }),
    ),
    h(
      Card,
      { key: "time", title: "Queue and GPUs over time" },
      h(Plot, { draw: drawTime(pictures, styleOf, virtualCluster ? "the cluster" : figure(gpus)), of: pictures, height: 520, onZoom: zoom, label: "Jobs that wait and GPUs in use over time, by variant" }),
      h(Text, { color: "fg.muted" }, "Draw a span to see it closer, double-click to see all again. The line is the mean of each span of time, the band its least and greatest. Times are UTC."),
      h(Folded, {
        columns: ["Variant", "mean jobs waiting", "most", "mean GPUs in use", "most "],
        rows: pictures.variants.map(({ name, waiting_jobs: queue, gpus_in_use: busy }) => [
          name,
          figure(queue.mean.reduce((sum, each) => sum + each, 0) / queue.mean.length),
          figure(Math.max(...queue.most)),
          figure(busy.mean.reduce((sum, each) => sum + each, 0) / busy.mean.length),
          figure(Math.max(...busy.most)),
        ]),
      }),
    ),
  ];
}

const Download = ({ runId, table, children }) =>
  h(Out, { href: address(`api/what-if/kept/${encodeURIComponent(runId)}/${table}.csv`) }, children);

export function WhatIfResult({ runId }) {
  const { value, problem } = useLook(`what-if/kept/${encodeURIComponent(runId)}`);
  const [virtualCluster, setVirtualCluster] = useState("");
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const { asked, variants, reference, remarks } = value;
  const good = variants.filter((variant) => !variant.error);
  const styleOf = styles(variants);
  const names = [...new Set(value.virtual_clusters.map((row) => row.virtual_cluster))];
  const key = `${runId} ${virtualCluster}`;
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Heading, { as: "h2", size: "lg" }, `${asked.cluster}, ${value.first_submission?.slice(0, 10)} to ${value.last_submission?.slice(0, 10)}`),
      h(Text, { color: "fg.muted" }, `asked by ${asked.asked_by || "somebody"} `, h(Time, { iso: asked.asked_at })),
    ),
    h(
      Card,
      { title: "Means, with what chance could make of them" },
      good.length > 0 && h(Plot, { draw: drawMeans(good), of: value, height: 120 + 34 * good.length, label: "Mean JCT and mean queuing of each variant with their intervals" }),
      h(Text, { color: "fg.muted" }, `Bars are 95 % intervals: whole days of one virtual cluster, drawn again and again. Changes are of the same jobs, against ${reference}.`),
      h(Variants, { variants, reference }),
      h(HStack, { gap: 4 }, h(Download, { runId, table: "variants" }, "CSV"), h(Download, { runId, table: "virtual-clusters" }, "by virtual cluster"), h(Download, { runId, table: "jobs" }, "of every job")),
      remarks.map((remark, i) => h(Text, { key: i, color: "fg.muted" }, remark)),
    ),
    value.grade && h(GradeCard, { grade: value.grade }),
    names.length > 1 &&
      h(
        Card,
        { title: "Mean queuing by virtual cluster" },
        h(Dots, { rows: byVirtualCluster(value.virtual_clusters), series: good.map(({ name }) => name), unit: "s" }),
        h(Folded, {
          columns: ["Virtual cluster", "Variant", "Jobs", "Mean queuing", "Mean JCT"],
          rows: value.virtual_clusters.map((row) => [row.virtual_cluster, row.variant, figure(row.jobs), withInterval(row.mean_queuing_delay_s, row.mean_queuing_delay_s_low, row.mean_queuing_delay_s_high), duration(row.mean_jct_s)]),
        }),
      ),
    h(
      HStack,
      null,
      h("label", { htmlFor: `part ${runId}` }, "The pictures below are of"),
      h(
        NativeSelect.Root,
        { size: "sm", w: "20rem" },
        h(
          NativeSelect.Field,
          { id: `part ${runId}`, value: virtualCluster, onChange: (event) => setVirtualCluster(event.target.value) },
          h("option", { value: "" }, "all virtual clusters"),
          names.map((name) => h("option", { key: name, value: name }, name)),
        ),
        h(Arrow),
      ),
    ),
    good.length > 0 && h(OverTime, { key: `time ${key}`, runId, virtualCluster, styleOf, variants: good }),
    good.length > 0 && h(Waits, { key: `waits ${key}`, runId, virtualCluster, variants: good }),
  );
}
