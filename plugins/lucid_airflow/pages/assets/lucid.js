// The page Lucid: all clusters at a glance, and below it the page of each release.

import { Cluster } from "./clusters.js";
import { Form, Go, Problem, Waiting, h } from "./cards.js";
import { ReleasePage } from "./release.js";
import { useReading } from "./reading.js";

const { Box, Heading, Text, VStack } = globalThis.ChakraUI;
const { useLocation } = globalThis.ReactRouterDOM;

function Clusters() {
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

globalThis.Lucid = function Lucid() {
  const parts = useLocation().pathname.split("/plugin/lucid")[1]?.split("/").filter(Boolean).map(decodeURIComponent) ?? [];
  const [place, cluster, version] = parts;
  return h(
    Box,
    { p: 4, maxW: "76rem", overflowY: "auto", h: "100%" },
    place === "releases" && cluster && version
      ? [
          h(Box, { key: "back", mb: 3 }, h(Go, { to: "/plugin/lucid" }, "All clusters")),
          h(ReleasePage, { key: "page", cluster, version }),
        ]
      : h(Clusters),
  );
};
