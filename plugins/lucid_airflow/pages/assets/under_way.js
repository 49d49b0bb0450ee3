// Runs that are queued or running, and the buttons that start one: while one is under way none is offered.

import { Act, airflow, runAddress, trigger } from "./acting.js";
import { Go, Time, h } from "./cards.js";
import { useAnswer } from "./reading.js";

const { HStack, Text } = globalThis.ChakraUI;
const STATES = "state=queued&state=running";
const NOTED = /^Cluster (.+)\.$/; // as run_results.py notes it when a run begins

// What is under way, the newest first; `cluster` is null where a run has not said yet which one it is about.
async function readUnderWay() {
  const { dag_runs: runs } = await airflow("GET", `dags/~/dagRuns?${STATES}&limit=100&order_by=-run_after`);
  return runs.map((run) => ({ ...run, cluster: run.conf?.cluster || NOTED.exec(run.note ?? "")?.[1] || null }));
}

export const useUnderWay = () => useAnswer(readUnderWay, "under way").value ?? [];

// The run of a DAG that is, or may be, about a cluster.
export const underWay = (runs, dagId, cluster) =>
  runs.find((run) => run.dag_id === dagId && [cluster, null].includes(run.cluster));

// Starts a run of a DAG for a cluster with these fields of its form; `runs`: what is under way.
export function StartRun({ runs, dagId, cluster, conf, ...button }) {
  const run = underWay(runs, dagId, cluster);
  const instead =
    run &&
    h(
      HStack,
      { role: "status", wrap: "wrap" },
      h(Go, { to: runAddress(run) }, `A run of ${dagId}`),
      run.start_date
        ? h(Text, null, "is under way since ", h(Time, { iso: run.start_date }), ".")
        : h(Text, null, "waits to begin."),
    );
  return h(Act, { ...button, instead, act: () => trigger(dagId, { cluster, ...conf }) });
}

// What a training or a verdict leads to, for those who are asked before.
export const AFTERWARDS = {
  true: "If the gate approves it, a person is asked before it goes live.",
  false: "If the gate approves it, it goes live at once: this installation requires no approval.",
};
export const trainingIsAsked = (cluster, approvalRequired) =>
  `The models of ${cluster} are trained on its jobs in the lake, and pinned in a new release, which the gate judges. ${AFTERWARDS[approvalRequired]}`;
export const judgingIsAsked = (cluster, version, approvalRequired) =>
  `The held-out days of ${cluster} are replayed under release ${version} and its rivals. ${AFTERWARDS[approvalRequired]}`;
