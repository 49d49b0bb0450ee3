// The page Lucid: its places, each a component of a file of its own, and the way between them.

import { ClusterPage } from "./cluster_page.js";
import { Clusters } from "./clusters.js";
import { Go, h } from "./cards.js";
import { Ingest } from "./ingest.js";
import { ReleasePage } from "./release.js";
import { WhatIf } from "./what_if.js";

const { Box, HStack } = globalThis.ChakraUI;
const { useLocation } = globalThis.ReactRouterDOM;

// By the first part of the address behind /plugin/lucid; a component gets the parts that follow.
const PLACES = {
  "": Clusters,
  releases: ReleasePage,
  clusters: ClusterPage,
  ingest: Ingest,
  "what-if": WhatIf,
};

const WAYS = [["", "Clusters"], ["ingest", "Bring a log"], ["what-if", "What if"]];

globalThis.Lucid = function Lucid() {
  const behind = useLocation().pathname.split("/plugin/lucid")[1] ?? "";
  const [place = "", ...parts] = behind.split("/").filter(Boolean).map(decodeURIComponent);
  return h(
    Box,
    { p: 4, maxW: "76rem", overflowY: "auto", h: "100%" },
    h(
      HStack,
      { as: "nav", "aria-label": "Lucid", gap: 4, mb: 3 },
      WAYS.map(([to, name]) => h(Go, { key: to, to: `/plugin/lucid${to && `/${to}`}`, here: to === place }, name)),
    ),
    h(PLACES[place] ?? Clusters, { key: behind, parts }),
  );
};
