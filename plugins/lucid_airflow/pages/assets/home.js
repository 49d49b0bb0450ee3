// The card on Home: approvals that wait, and a line per cluster.

import { Card, Go, Problem, Waiting, h } from "./cards.js";
import { Row } from "./clusters.js";
import { count } from "./words.js";
import { useReading } from "./reading.js";
import { useWaiting } from "./approvals.js";

const { HStack, Text } = globalThis.ChakraUI;

globalThis["Lucid at a glance"] = function LucidAtAGlance() {
  const { value, problem } = useReading("overview");
  const { value: asked } = useWaiting();
  // What is asked about a cluster that was removed leads nowhere from here.
  const waiting = asked?.filter((each) => !value || value.problem || value.clusters.some((cluster) => cluster.name === each.cluster));
  return h(
    Card,
    { title: "Lucid", aside: h(Go, { to: "/plugin/lucid" }, "All clusters") },
    problem && h(Problem, null, problem),
    !value && !problem && h(Waiting),
    value?.problem && h(Problem, null, value.problem),
    waiting?.length > 0 &&
      h(
        HStack,
        { wrap: "wrap" },
        h(Text, { fontWeight: "semibold" }, `${count(waiting.length, "approval")} ${waiting.length === 1 ? "waits" : "wait"}:`),
        waiting.map((each) => h(Go, { key: each.runId, to: "/plugin/lucid" }, each.subject)),
      ),
    value?.clusters.map((cluster) => h(Row, { key: cluster.name, cluster })),
    value && !value.problem && !value.clusters.length && h(Text, null, "There is no cluster yet. ", h(Go, { to: "/plugin/lucid/ingest" }, "Bring the log of one"), "."),
  );
};
