// The page Lucid: all clusters at a glance.

import { Cluster } from "./clusters.js";
import { Form, Problem, Waiting, h } from "./cards.js";
import { useReading } from "./reading.js";

const { Box, Heading, Text, VStack } = globalThis.ChakraUI;

globalThis.Lucid = function Lucid() {
  const { value, problem } = useReading("overview");
  return h(
    Box,
    { p: 4, maxW: "72rem", overflowY: "auto", h: "100%" },
    h(Heading, { as: "h1", size: "xl", mb: 4 }, "Lucid: models of your clusters' schedulers"),
    h(
      VStack,
      { align: "stretch", gap: 4, "aria-live": "polite" },
      problem && h(Problem, null, problem),
      value?.problem && h(Problem, null, value.problem),
      !value && !problem && h(Waiting),
      value &&
        !value.clusters.length &&
        h(Text, null, "There is no cluster yet. ", h(Form, { dagId: "ingest_logs" }, "Bring its log: open ingest_logs")),
      value?.clusters.map((cluster) => h(Cluster, { key: cluster.name, cluster, seen: value })),
    ),
  );
};
