// All clusters at a glance: what is live, what wants to be, how it does, how old its data are, and what people may do.

import { Act, trigger } from "./acting.js";
import { Approvals } from "./approvals.js";
import { Card, Go, Line, Out, Problem, Time, Waiting, Word, h, keptPage, muted } from "./cards.js";
import { Curve } from "./charts.js";
import { count, figure } from "./words.js";
import { useReading } from "./reading.js";
import { StartRun, judgingIsAsked, trainingIsAsked, useUnderWay } from "./under_way.js";

const { HStack, Heading, Text, VStack } = globalThis.ChakraUI;
const ALL_OPEN = 4; // clusters; with more of them each is a line that opens

const DECIDED = { publish: "Published", rollback: "Rolled back to", rejection: "Turned down" };

export function Decided({ decision }) {
  if (!decision) return muted("Who decided it was not recorded.");
  return h(
    Text,
    null,
    `${DECIDED[decision.kind] ?? decision.kind} by ${decision.by || "somebody"} `,
    h(Time, { iso: decision.at }),
    decision.because ? `: ${decision.because}` : "",
    decision.before ? ` (release ${decision.before} was live before)` : "",
  );
}

// The buttons that move a cluster's live release; schedulers follow it.
export const PublishButton = ({ cluster, version, live, beside, may }) =>
  h(Act, {
    label: `Publish release ${version}`,
    may,
    confirm: `Release ${version} of ${cluster} goes live${live ? ` in place of release ${live}` : ""}. ${beside} Its schedulers follow at their next poll. Where an approval is required, a person is asked first.`,
    reason: "Why? It is kept with the release.",
    act: (reason) => trigger("publish_release", { cluster, version, replaces: live ?? 0, reason }),
  });

export const RollbackButton = ({ cluster, live, previous, may }) =>
  h(Act, {
    label: `Roll back to release ${previous}`,
    may,
    danger: true,
    confirm: `Release ${live} of ${cluster} is live. Rolling back makes release ${previous} live again; schedulers follow at their next poll.`,
    reason: "Why? It is kept with the release.",
    reasonLength: 3,
    act: (reason) => trigger("rollback_release", { cluster, from_version: live, reason }),
  });

function Release({ cluster, release, mlflow, children }) {
  const page = mlflow && `${mlflow}/#/models/lucid-release-${cluster}/versions/${release.version}`;
  return h(
    VStack,
    { align: "start", gap: 1 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Go, { to: `/plugin/lucid/releases/${cluster}/${release.version}` }, `Release ${release.version}`),
      release.policy && h(Text, null, `runs ${release.policy}`),
      h(Word, null, release.verdict ?? "not judged"),
      page && h(Out, { href: page }, "MLflow"),
    ),
    release.sentence && h(Text, null, release.sentence),
    children,
  );
}

function Challenger({ cluster, seen }) {
  const { name, live, challenger, obstacles, beside_the_live: beside } = cluster;
  if (!challenger) return muted(live ? "None: the newest release is live." : "None was built.");
  return h(
    Release,
    { cluster: name, release: challenger, mlflow: seen.mlflow },
    obstacles
      .filter((obstacle) => !challenger.sentence || !obstacle.includes(challenger.sentence))
      .map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
    challenger.verdict &&
      !obstacles.length &&
      h(PublishButton, { cluster: name, version: challenger.version, live: live?.version, beside, may: seen.may.publish }),
  );
}

function Monitored({ monitored }) {
  const last = monitored.history.at(-1);
  const beside = {
    ...(last.validation_factor && { "at validation (dashed)": last.validation_factor }),
    ...(last.naive_factor && { "by a naive guess on the same jobs (dotted)": last.naive_factor }),
  };
  const others = Object.entries(beside).map(([name, factor]) => `${figure(factor)} ${name}`);
  return h(
    VStack,
    { align: "stretch", gap: 1 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Word, null, monitored.decision),
      muted(`release ${monitored.version}, as of `, h(Time, { iso: monitored.as_of })),
      h(Out, { href: keptPage("monitoring", monitored.page) }, "Page of this pass"),
    ),
    monitored.reasons.map((reason, i) => h(Text, { key: i }, reason)),
    last.error_factor
      ? h(Curve, {
          title: `Estimates of run times are typically off by a factor of ${figure(last.error_factor)}${others.length ? `; ${others.join(", ")}` : ""}. 1 would be perfect.`,
          unit: "\u00d7",
          best: 1,
          beside,
          points: monitored.history.map((pass) => ({ at: pass.as_of, value: pass.error_factor, decision: pass.decision })),
        })
      : muted("Too few jobs ended in its window to say how far estimates of run times are off."),
  );
}

function Data({ cluster: { name, data } }) {
  const size = data.nodes
    ? `, ${count(data.nodes, "node")} with ${count(data.gpus, "GPU")} in ${count(data.virtual_clusters, "virtual cluster")}`
    : "";
  return h(
    VStack,
    { align: "start", gap: 1 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Go, { to: `/plugin/lucid/clusters/${name}` }, `${data.first_day} to ${data.last_day}`),
      h(Text, null, `(${count(data.days, "day")} with jobs)${size}`),
      data.origin && data.origin !== "real" && h(Word, null, data.origin),
    ),
    data.old &&
      h(
        Text,
        { color: "fg.warning" },
        "The newest job is from ",
        h(Time, { iso: `${data.last_day}T23:59:59Z` }),
        ": what is built on it may not fit the cluster as it is now. ",
        h(Go, { to: "/plugin/lucid/ingest" }, "Bring newer jobs"),
      ),
  );
}

// The runs that bring what is missing: what the button says, and what people are asked before.
const STARTS = {
  retrain_models: ({ name }, { may, approval_required: required }) => ({
    label: "Train the models",
    may: may.retrain,
    confirm: trainingIsAsked(name, required),
  }),
  validate_release: ({ name, challenger }, { may, approval_required: required }) => ({
    label: "Let the gate judge it",
    may: may.validate,
    confirm: judgingIsAsked(name, challenger.version, required),
  }),
  monitor_live: (_, { may }) => ({
    label: "Monitor it, without retraining",
    may: may.monitor,
    conf: { may_retrain: false },
  }),
};

// What a cluster lacks, with what brings it: a page, or a run that is started here.
const Missing = ({ cluster, seen, runs }) =>
  cluster.missing.map(({ sentence, dag_id: dagId }) =>
    h(
      HStack,
      { key: sentence, wrap: "wrap" },
      h(Text, null, sentence),
      dagId === "ingest_logs" && h(Go, { to: "/plugin/lucid/ingest" }, "Bring a log"),
      dagId in STARTS && h(StartRun, { runs, dagId, cluster: cluster.name, ...STARTS[dagId](cluster, seen) }),
    ),
  );

// What is live, what wants to be, what was seen: the line of a cluster.
export const Row = ({ cluster: { name, live, challenger, monitored, data } }) =>
  h(
    HStack,
    { wrap: "wrap", display: "inline-flex", verticalAlign: "top", maxW: "calc(100% - 2rem)" },
    h(Text, { fontWeight: "semibold", wordBreak: "break-all" }, name),
    live
      ? h(Text, null, `release ${live.version} is live`, live.decision && [" since ", h(Time, { key: 0, iso: live.decision.at })])
      : muted("nothing is live"),
    challenger && h(HStack, null, h(Text, null, `challenger ${challenger.version}`), h(Word, null, challenger.verdict ?? "not judged")),
    monitored && h(Word, null, monitored.decision),
    data && h(Text, { color: data.old ? "fg.warning" : "fg.muted" }, `data until ${data.last_day}`),
  );

const Cluster = ({ cluster, seen, runs }) => {
  const { name, live, previous } = cluster;
  const { may } = seen;
  return h(
    Card,
    {
      title: name,
      to: `/plugin/lucid/clusters/${name}`,
      aside: previous && live && h(RollbackButton, { cluster: name, live: live.version, previous, may: may.rollback }),
    },
    cluster.problem && h(Text, { color: "fg.error" }, cluster.problem),
    h(
      Line,
      { label: "Live" },
      live
        ? h(Release, { cluster: name, release: live, mlflow: seen.mlflow }, h(Decided, { decision: live.decision }))
        : muted("Nothing: schedulers go by their heuristic."),
    ),
    h(Line, { label: "Challenger" }, h(Challenger, { cluster, seen })),
    cluster.monitored && h(Line, { label: "Monitoring" }, h(Monitored, { monitored: cluster.monitored })),
    cluster.data && h(Line, { label: "Data" }, h(Data, { cluster })),
    cluster.missing.length > 0 && h(Line, { label: "Missing" }, h(Missing, { cluster, seen, runs })),
  );
};

// What was seen, as far as it is about one cluster: what this person may do with it.
const seenOf = (seen, name) => ({ ...seen, may: seen.may_with[name] ?? seen.may });

// The place "": all clusters.
export function Clusters() {
  const { value, problem } = useReading("overview");
  const runs = useUnderWay();
  const clusters = value?.clusters ?? [];
  const open = clusters.length <= ALL_OPEN;
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(Heading, { as: "h1", size: "xl" }, "Lucid: models of your clusters' schedulers"),
    problem && h(Problem, null, problem),
    value?.problem && h(Problem, null, value.problem),
    !value && !problem && h(Waiting),
    value && h(Approvals, { clusters: value.problem ? [] : clusters, seen: value }),
    value &&
      !value.problem &&
      !clusters.length &&
      h(Text, null, "There is no cluster yet. ", h(Go, { to: "/plugin/lucid/ingest" }, "Bring the log of one"), "."),
    clusters.map((cluster) =>
      open
        ? h(Cluster, { key: cluster.name, cluster, seen: seenOf(value, cluster.name), runs })
        : h("details", { key: cluster.name }, h("summary", { style: { cursor: "pointer" } }, h(Row, { cluster })), h(Cluster, { cluster, seen: seenOf(value, cluster.name), runs })),
    ),
  );
}
