// The form of a what-if: every field is checked by the server's own rules before anything runs.

import { Act, trigger } from "./acting.js";
import { Arrow, Card, Line, Problem, h } from "./cards.js";
import { useLook } from "./reading.js";

const { Box, HStack, Input, NativeSelect, Text, VStack } = globalThis.ChakraUI;
const { useState } = globalThis.React;

const dayAfter = (day) => new Date(Date.parse(`${day}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);

// The fields of the DAG's form, of what is chosen here; the last day is inclusive on the page alone.
function fieldsOf({ cluster, first, last, policies, everywhere, each, models }) {
  const nodes = [["*", everywhere], ...Object.entries(each)].filter(([, more]) => more !== "" && Number(more) !== 0);
  return {
    cluster,
    start: first,
    end: last ? dayAfter(last) : "",
    policies,
    added_nodes: Object.fromEntries(nodes.map(([name, more]) => [name, Number(more)])),
    live_release: models,
  };
}

const freshOf = (cluster, policies) => ({
  cluster: cluster.name,
  first: cluster.start,
  last: cluster.last_day,
  policies: policies.filter((policy) => policy.usual).map((policy) => policy.name),
  everywhere: "",
  each: {},
  models: cluster.live != null,
});

const Day = ({ label, value, cluster, onChange }) =>
  h(
    "label",
    null,
    `${label} `,
    h(Input, { type: "date", size: "sm", w: "11rem", value, min: cluster.first_day, max: cluster.last_day, onChange: (event) => onChange(event.target.value) }),
  );

const More = ({ label, value, onChange }) =>
  h(
    "label",
    null,
    `${label} `,
    h(Input, { type: "number", step: 1, size: "xs", w: "6rem", value, placeholder: "+0", onChange: (event) => onChange(event.target.value) }),
  );

const Policies = ({ policies, chosen, onChange }) =>
  h(
    VStack,
    { role: "group", "aria-label": "Policies", align: "stretch", gap: 1 },
    policies.map((policy) =>
      h(
        "label",
        { key: policy.name },
        h("input", {
          type: "checkbox",
          checked: chosen.includes(policy.name),
          onChange: () => onChange(policies.map(({ name }) => name).filter((name) => chosen.includes(name) !== (name === policy.name))),
        }),
        h("strong", null, ` ${policy.name} `),
        h(Text, { as: "span", color: "fg.muted" }, `${policy.sentence} Knows ${policy.knows}.`),
      ),
    ),
  );

export function WhatIfForm({ choices: { clusters, policies, may }, placeOf, dagId }) {
  const [asked, setAsked] = useState(clusters.length ? freshOf(clusters[0], policies) : null);
  const fields = asked && fieldsOf(asked);
  const looked = useLook(fields && `what-if/check?asked=${encodeURIComponent(JSON.stringify(fields))}`);
  const said = looked.problem ? { problem: looked.problem } : looked.busy ? null : looked.value;
  if (!asked) return h(Problem, null, "The lake has no jobs of any cluster: ingest a log first.");
  const cluster = clusters.find(({ name }) => name === asked.cluster);
  const change = (part) => setAsked({ ...asked, ...part });
  const rigid = policies.filter((policy) => !policy.resizes);
  const resizing = policies.filter((policy) => policy.resizes);
  const choose = (shown) => (names) => {
    const others = asked.policies.filter((name) => !shown.some((policy) => policy.name === name));
    change({ policies: policies.map(({ name }) => name).filter((name) => [...others, ...names].includes(name)) });
  };
  const run = async () => {
    const started = await trigger(dagId, { ...fields, keep_jobs: true, runs_per_task: 1 });
    return placeOf(started.dag_run_id);
  };
  return h(
    Card,
    { title: "Replay a cluster's days under other policies, or with other nodes" },
    h(
      Line,
      { label: "Cluster" },
      h(
        NativeSelect.Root,
        { size: "sm", w: "20rem" },
        h(
          NativeSelect.Field,
          { "aria-label": "Cluster", value: asked.cluster, onChange: (event) => setAsked(freshOf(clusters.find(({ name }) => name === event.target.value), policies)) },
          clusters.map(({ name }) => h("option", { key: name, value: name }, name)),
        ),
        h(Arrow),
      ),
    ),
    h(
      Line,
      { label: "Days" },
      h(
        HStack,
        { wrap: "wrap" },
        h(Day, { label: "from", value: asked.first, cluster, onChange: (first) => change({ first }) }),
        h(Day, { label: "to", value: asked.last, cluster, onChange: (last) => change({ last }) }),
        h(Text, { color: "fg.muted" }, `The lake has ${cluster.first_day} to ${cluster.last_day}.`),
      ),
    ),
    h(
      Line,
      { label: "Policies" },
      h(Policies, { policies: rigid, chosen: asked.policies, onChange: choose(rigid) }),
      h(
        "details",
        null,
        h("summary", { style: { cursor: "pointer" } }, `${resizing.length} more, which change the GPUs of running jobs where the log says how these scale`),
        h(Policies, { policies: resizing, chosen: asked.policies, onChange: choose(resizing) }),
      ),
    ),
    h(
      Line,
      { label: "Nodes" },
      cluster.nodes
        ? h(
            VStack,
            { align: "start", gap: 2 },
            h(More, { label: "more (or, below 0, fewer) in all virtual clusters, in proportion", value: asked.everywhere, onChange: (everywhere) => change({ everywhere }) }),
            h(
              "details",
              { style: { width: "100%" } },
              h("summary", { style: { cursor: "pointer" } }, "or in each virtual cluster"),
              h(
                HStack,
                { wrap: "wrap", gap: 4 },
                Object.entries(cluster.nodes).map(([name, nodes]) =>
                  h(More, { key: name, label: `${name} (now ${nodes})`, value: asked.each[name] ?? "", onChange: (more) => change({ each: { ...asked.each, [name]: more } }) }),
                ),
              ),
            ),
            h(Text, { color: "fg.muted" }, "Each policy is then replayed with the nodes as they are, too."),
          )
        : h(Text, { color: "fg.error" }, "How many nodes the cluster has is not known: bring them with ingest_logs."),
    ),
    h(
      Line,
      { label: "Models" },
      cluster.live
        ? h(
            "label",
            null,
            h("input", { type: "checkbox", checked: asked.models, onChange: () => change({ models: !asked.models }) }),
            ` Go by the models of release ${cluster.live.version}, which is live and runs ${cluster.live.policy}`,
          )
        : h(Text, { color: "fg.muted" }, cluster.problem || "No release is live: estimates are the log's, or each user's last run times."),
    ),
    h(
      Box,
      { role: "status", "aria-live": "polite" },
      said?.problem ? h(Problem, null, said.problem) : h(Text, null, said?.sentence ?? "Checking ..."),
    ),
    h(Act, { label: "Replay", act: run, may, disabled: !said || Boolean(said.problem) }),
  );
}
