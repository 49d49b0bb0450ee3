// The card on Home: a line per cluster.

import { Card, Go, Problem, Time, Word, h } from "./cards.js";
import { useReading } from "./reading.js";

const { HStack, Text } = globalThis.ChakraUI;

const Row = ({ cluster }) =>
  h(
    HStack,
    { wrap: "wrap" },
    h(Text, { fontWeight: "semibold" }, cluster.name),
    cluster.live
      ? h(Text, null, `release ${cluster.live.version} is live`, cluster.live.decision && [" since ", h(Time, { key: 0, iso: cluster.live.decision.at })])
      : h(Text, { color: "fg.muted" }, "nothing is live"),
    cluster.challenger && h(HStack, null, h(Text, null, `challenger ${cluster.challenger.version}`), h(Word, null, cluster.challenger.verdict ?? "not judged")),
    cluster.monitored && h(Word, null, cluster.monitored.decision),
    cluster.data && h(Text, { color: "fg.muted" }, `data until ${cluster.data.last_day}`),
  );

globalThis["Lucid at a glance"] = function LucidAtAGlance() {
  const { value, problem } = useReading("overview");
  return h(
    Card,
    { title: "Lucid", aside: h(Go, { to: "/plugin/lucid" }, "All about them") },
    problem && h(Problem, null, problem),
    value?.clusters.map((cluster) => h(Row, { key: cluster.name, cluster })),
    value && !value.clusters.length && h(Text, null, "There is no cluster yet."),
  );
};
