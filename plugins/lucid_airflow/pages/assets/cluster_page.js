// The page of a cluster: its data, what was refused of them, what they are ready for, and its removal.

import { Act, airflow, runAddress, trigger } from "./acting.js";
import { Card, Form, Go, Line, Out, Problem, Rows, Time, Waiting, Word, h, keptPage, muted } from "./cards.js";
import { DailyBars } from "./charts.js";
import { count, figure } from "./words.js";
import { useAnswer, useReading } from "./reading.js";

const { useState } = globalThis.React;
const { Field, HStack, Heading, Input, Text, VStack } = globalThis.ChakraUI;

const MOST_RUNS = 100; // of ingest_logs that are looked through
const SHOWN_RUNS = 10;
const Steps = ({ steps, may }) =>
  h(Rows, {
    columns: ["", "Step", "How it is", "What does it"],
    rows: steps.map((step) => [
      h(Word, null, step.state),
      step.name,
      step.sentence,
      step.dag_id ? h(Form, { dagId: step.dag_id }, step.dag_id) : may.ingest && h(Go, { to: "/plugin/lucid/ingest" }, "Bring a log"),
    ]),
  });

function Nodes({ nodes }) {
  const kinds = {};
  for (const { nodes: number, gpus_per_node: gpus } of nodes) kinds[gpus] = (kinds[gpus] ?? 0) + number;
  const words = Object.entries(kinds).map(([gpus, number]) => `${count(number, "node")} of ${count(Number(gpus), "GPU")}`);
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(Text, null, `${words.join(", ")}; ${count(Object.entries(kinds).reduce((sum, [gpus, number]) => sum + gpus * number, 0), "GPU")} in all.`),
    h(Rows, {
      columns: ["Virtual cluster", "Nodes", "GPUs of a node", "GPUs"],
      rows: nodes.map((row) => [row.virtual_cluster, figure(row.nodes), row.gpus_per_node, figure(row.nodes * row.gpus_per_node)]),
    }),
  );
}

const Profiles = ({ profiles }) =>
  h(
    VStack,
    { align: "stretch", gap: 1 },
    h(Text, null, `Measured on GPUs: ${count(profiles.measured_job_types, "job type")}, ${count(profiles.measured_pairs, "pair")}. Simulated: ${count(profiles.simulated_job_types, "job type")}, ${count(profiles.simulated_pairs, "pair")}.`),
    muted(`Of ${profiles.devices.join(", ")}`, profiles.newest && [", the newest measured ", h(Time, { key: 0, iso: profiles.newest })]),
  );

const Quarantine = ({ reasons }) =>
  h(Rows, {
    columns: ["Rows", "Why", "For example: row, field and value", "The row"],
    rows: reasons.flatMap((each) =>
      (each.samples.length ? each.samples : [null]).map((sample, i) => [
        i ? "" : figure(each.rows),
        i ? "" : `${each.meaning} (${each.reason})`,
        sample && `${sample.file}, row ${sample.row}${sample.column ? `: ${sample.column} = ${sample.value ?? ""}` : ""}`,
        sample && h(Text, { fontFamily: "mono", fontSize: "xs", wordBreak: "break-all" }, sample.text.slice(0, 300)),
      ]),
    ),
  });

const Tables = ({ tables }) =>
  h(Rows, {
    columns: ["Table", "Rows", "Days"],
    rows: tables.map((table) => [
      table.title,
      table.rows ? figure(table.rows) : "none",
      table.first_day ? `${table.first_day} to ${table.last_day}` : `Comes with an ingest: ${table.brought_by}.`,
    ]),
  });

// What was live when, who wanted it and why, as it was signed.
const History = ({ cluster, history }) =>
  h(Rows, {
    columns: ["When", "Release", "In place of", "Asked by", "Approved by", "Why"],
    rows: history.map((each) => [
      h(Time, { iso: each.at }),
      h(
        HStack,
        { wrap: "wrap" },
        h(Go, { to: `/plugin/lucid/releases/${cluster}/${each.version}` }, `Release ${each.version}`),
        each.kind === "rollback" && h(Word, null, "rollback"),
        each.problem && h(Text, { color: "fg.error" }, each.problem),
      ),
      each.replaces ?? "none",
      each.asked_by,
      each.approved_by,
      each.because,
    ]),
  });

const PALETTE = { success: "ok", failed: "refused" };

// The runs of ingest_logs that were about this cluster, as Airflow has them.
function Ingests({ cluster }) {
  const { value: runs, problem } = useAnswer(async () => {
    const { dag_runs } = await airflow("GET", `dags/ingest_logs/dagRuns?order_by=-start_date&limit=${MOST_RUNS}`);
    return dag_runs.filter((run) => run.conf?.cluster === cluster);
  }, cluster);
  if (problem) return h(Problem, null, problem);
  if (!runs) return h(Waiting);
  if (!runs.length) return muted(`None of the last ${MOST_RUNS} runs of ingest_logs names it.`);
  return h(Rows, {
    columns: ["When", "Run", "Log", "By"],
    rows: runs.slice(0, SHOWN_RUNS).map((run) => [
      run.start_date ? h(Time, { iso: run.start_date }) : "waits",
      h(HStack, null, h(Go, { to: runAddress(run) }, "its result"), h(Word, null, PALETTE[run.state] ?? run.state)),
      `${run.conf.input_uri ?? ""} (${run.conf.source_format ?? ""})`,
      run.triggering_user_name ?? run.triggered_by ?? "",
    ]),
  });
}

function Removal({ cluster, held, live, may }) {
  const [typed, setTyped] = useState("");
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(Text, null, `The lake holds ${held}. All of it would go; its releases in MLflow and the pages of past runs stay.`),
    live && h(Text, { color: "fg.warning" }, `Release ${live.version} stays live: schedulers go on by it, and nothing trains or judges a newer one.`),
    h(
      Field.Root,
      { maxW: "24rem" },
      h(Field.Label, null, `Type ${cluster} to remove it`),
      h(Input, { value: typed, autoComplete: "off", onChange: (event) => setTyped(event.target.value) }),
    ),
    h(Act, {
      label: `Remove ${cluster}`,
      danger: true,
      may,
      disabled: typed !== cluster,
      confirm: `All that the lake holds of ${cluster} is removed, for good.`,
      act: async () => runAddress(await trigger("remove_cluster", { cluster, typed_again: typed })),
    }),
  );
}

const Shown = ({ title, when, missing, children }) => h(Card, { title }, when ? children : muted(missing));

export function ClusterPage({ parts: [name] }) {
  const { value, problem } = useReading(`clusters/${encodeURIComponent(name)}`);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const { cluster, may } = value;
  const docs = Object.entries(value.docs);
  const { data } = cluster;
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Heading, { as: "h1", size: "xl" }, `Cluster ${name}`),
      data?.origin && data.origin !== "real" && h(Word, null, data.origin),
      cluster.live && h(Go, { to: `/plugin/lucid/releases/${name}/${cluster.live.version}` }, `Release ${cluster.live.version} is live`),
    ),
    problem && h(Problem, null, problem),
    value.problem && h(Problem, null, value.problem),
    h(Card, { title: "Ready to publish?" }, h(Steps, { steps: value.steps, may })),
    value.history &&
      h(
        Shown,
        { title: "What was live", when: value.history.length, missing: "Nothing was published yet." },
        h(History, { cluster: name, history: value.history }),
      ),
    data &&
      h(
        Card,
        { title: "Jobs" },
        h(Line, { label: "Submitted" }, `${data.first_day} to ${data.last_day} (UTC), on ${count(data.days, "day")}`),
        h(Line, { label: "In the lake" }, count(Object.values(value.jobs_by_day).reduce((sum, jobs) => sum + jobs, 0), "job")),
        h(DailyBars, { title: "Jobs a day", days: value.jobs_by_day }),
      ),
    h(Shown, { title: "Nodes", when: value.nodes.length, missing: "How many nodes it has is not known: give them with its log." }, h(Nodes, value)),
    h(Shown, { title: "Profiles of GPUs", when: value.profiles, missing: "There are none." }, h(Profiles, value)),
    h(
      Shown,
      { title: "Quarantine", when: value.quarantine.length, missing: "No row was refused." },
      h(Quarantine, { reasons: value.quarantine }),
    ),
    value.part_pages.map(({ kind, title, dag_id: dagId, page, sentences }) =>
      h(
        Card,
        { key: kind, title },
        page
          ? [
              sentences.map((sentence, i) => h(Text, { key: i }, sentence)),
              h(Out, { key: "page", href: keptPage(kind, page) }, "Figures and tables"),
            ]
          : h(HStack, null, muted("There is none yet."), h(Form, { dagId }, `Open ${dagId}`)),
      ),
    ),
    docs.length > 0 &&
      h(
        Card,
        { title: "Data docs" },
        h(HStack, { wrap: "wrap", gap: 4 }, docs.map(([table, page]) => h(Out, { key: table, href: keptPage("data-docs", page) }, table.replaceAll("_", " ")))),
      ),
    h(Card, { title: "Other tables" }, h(Tables, value)),
    h(Card, { title: "Ingests" }, h(Ingests, { cluster: name })),
    value.held_in_words && h(Card, { title: "Remove it" }, h(Removal, { cluster: name, held: value.held_in_words, live: cluster.live, may: may.remove })),
  );
}
