// All clusters at a glance: what is live, what wants to be, how it does, and how old its data are.

import { Card, Form, Go, History, Line, Out, Problem, Time, Waiting, Word, h, keptPage } from "./cards.js";
import { count } from "./words.js";
import { useReading } from "./reading.js";

const { HStack, Heading, Text, VStack } = globalThis.ChakraUI;

const muted = (text) => h(Text, { color: "fg.muted" }, text);

function Decided({ decision }) {
  if (!decision) return muted("Who decided it was not recorded.");
  const verb = decision.kind === "rollback" ? "rolled back to" : "published";
  return h(
    Text,
    { color: "fg.muted" },
    `${verb} by ${decision.by || "somebody"} `,
    h(Time, { iso: decision.at }),
    decision.because ? `: ${decision.because}` : "",
    decision.before ? ` (release ${decision.before} was live before)` : "",
  );
}

function Release({ cluster, release, mlflow, children }) {
  const page = mlflow && `${mlflow}/#/models/lucid-release-${cluster}/versions/${release.version}`;
  return h(
    VStack,
    { align: "stretch", gap: 1 },
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
  const { challenger, obstacles } = cluster;
  if (!challenger) return muted(cluster.live ? "None: the newest release is live." : "None was built.");
  const ready = challenger.verdict && !obstacles.length;
  return h(
    Release,
    { cluster: cluster.name, release: challenger, mlflow: seen.mlflow },
    obstacles
      .filter((obstacle) => obstacle !== challenger.sentence)
      .map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
    ready && h(Form, { dagId: "publish_release", may: seen.may.publish }, "Publish it"),
    h(Go, { to: "/required_actions" }, "Approvals that wait"),
  );
}

function Monitored({ monitored }) {
  return h(
    VStack,
    { align: "stretch", gap: 1 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Word, null, monitored.decision),
      h(History, { passes: monitored.history }),
      h(Out, { href: keptPage("monitoring", monitored.page) }, "Page of this pass"),
      h(Text, { color: "fg.muted" }, "as of ", h(Time, { iso: monitored.as_of })),
    ),
    monitored.reasons.map((reason, i) => h(Text, { key: i }, reason)),
  );
}

function Data({ data }) {
  const size = data.nodes
    ? `, ${count(data.nodes, "node")} with ${count(data.gpus, "GPU")} in ${count(data.virtual_clusters, "virtual cluster")}`
    : "";
  return h(
    HStack,
    { wrap: "wrap" },
    h(Text, null, `${data.first_day} to ${data.last_day} (${count(data.days, "day")} with jobs)${size}`),
    data.origin && data.origin !== "real" && h(Word, null, data.origin),
    h(Text, { color: "fg.muted" }, "the newest is from ", h(Time, { iso: `${data.last_day}T23:59:59Z` })),
  );
}

const Cluster = ({ cluster, seen }) =>
  h(
    Card,
    {
      title: cluster.name,
      aside:
        cluster.previous &&
        cluster.live &&
        h(
          Form,
          { dagId: "rollback_release", may: seen.may.rollback },
          `Roll back: release ${cluster.live.version} to ${cluster.previous}`,
        ),
    },
    cluster.problem && h(Text, { color: "fg.error" }, cluster.problem),
    h(
      Line,
      { label: "Live" },
      cluster.live
        ? h(
            Release,
            { cluster: cluster.name, release: cluster.live, mlflow: seen.mlflow },
            h(Decided, { decision: cluster.live.decision }),
          )
        : muted("Nothing: schedulers go by their heuristic."),
    ),
    h(Line, { label: "Challenger" }, h(Challenger, { cluster, seen })),
    cluster.monitored && h(Line, { label: "Monitoring" }, h(Monitored, { monitored: cluster.monitored })),
    cluster.data && h(Line, { label: "Data" }, h(Data, { data: cluster.data })),
    cluster.missing.length > 0 &&
      h(
        Line,
        { label: "Missing" },
        cluster.missing.map(({ sentence, dag_id }, i) =>
          h(HStack, { key: i, wrap: "wrap" }, h(Text, null, sentence), h(Form, { dagId: dag_id }, `Open ${dag_id}`)),
        ),
      ),
  );

export function Clusters() {
  const { value, problem } = useReading("overview");
  return h(
    VStack,
    { align: "stretch", gap: 4, "aria-live": "polite" },
    h(Heading, { as: "h1", size: "xl" }, "Lucid: models of your clusters' schedulers"),
    problem && h(Problem, null, problem),
    value?.problem && h(Problem, null, value.problem),
    !value && !problem && h(Waiting),
    value &&
      !value.clusters.length &&
      h(Text, null, "There is no cluster yet. ", h(Form, { dagId: "ingest_logs" }, "Bring its log: open ingest_logs")),
    value?.clusters.map((cluster) => h(Cluster, { key: cluster.name, cluster, seen: value })),
  );
}
