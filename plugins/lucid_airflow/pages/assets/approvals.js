// Approvals that wait for a person: asked of Airflow's own list of required actions, and answered through its API.

import { Act, airflow } from "./acting.js";
import { Card, Go, Problem, Time, h } from "./cards.js";
import { useAnswer } from "./reading.js";

const { HStack, Text, VStack } = globalThis.ChakraUI;
const DAG_ID = "publish_release";
const WAITS = ["awaiting_input", "deferred"];

const taskAddress = ({ runId, taskId }) => `dags/${DAG_ID}/dagRuns/${encodeURIComponent(runId)}/taskInstances/${taskId}`;

// What waits, oldest first: { cluster, version, subject, askedAt, runId, taskId, mapIndex, options }.
async function readWaiting() {
  const states = WAITS.map((state) => `&state=${state}`).join("");
  const { hitl_details: asked } = await airflow("GET", `dags/${DAG_ID}/dagRuns/~/hitlDetails?response_received=false&limit=100&order_by=created_at${states}`);
  return Promise.all(
    asked.map(async ({ subject, created_at: askedAt, options, task_instance: task }) => {
      const waiting = { subject, askedAt, options, runId: task.dag_run_id, taskId: task.task_id, mapIndex: task.map_index };
      const judged = await airflow("GET", `${taskAddress({ ...waiting, taskId: "check_verdict" })}/xcomEntries/return_value?stringify=false`);
      return { ...waiting, cluster: judged.value.cluster, version: Number(judged.value.version) };
    }),
  );
}

export const useWaiting = () => useAnswer(readWaiting, DAG_ID);

const answer = (waiting, option, reason) =>
  airflow("PATCH", `${taskAddress(waiting)}/${waiting.mapIndex}/hitlDetails`, { chosen_options: [option], params_input: { reason } });

const CONSEQUENCE = {
  Approve: ({ cluster, version }, live) =>
    `Release ${version} of ${cluster} goes live${live ? ` in place of release ${live}` : ""}. Its schedulers follow at their next poll.`,
  Reject: ({ cluster, version }, live) =>
    `Release ${version} of ${cluster} stays where it is, and ${live ? `release ${live} stays live` : "nothing goes live"}.`,
};

// One question with its buttons; `live`: the version that an approval replaces; `may`: whether this person may answer.
export const Approval = ({ waiting, live, may }) =>
  h(
    VStack,
    { align: "stretch", gap: 2 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Text, { fontWeight: "semibold" }, waiting.subject),
      h(Text, { color: "fg.muted" }, "asked ", h(Time, { iso: waiting.askedAt })),
      h(Go, { to: `/dags/${DAG_ID}/runs/${encodeURIComponent(waiting.runId)}` }, "Run"),
    ),
    h(
      HStack,
      { wrap: "wrap", align: "start" },
      waiting.options.map((option) =>
        h(Act, {
          key: option,
          label: option,
          may,
          danger: option === "Reject",
          confirm: CONSEQUENCE[option]?.(waiting, live) ?? waiting.subject,
          reason: "Why? It is kept with the release.",
          act: (reason) => answer(waiting, option, reason),
        }),
      ),
    ),
  );

// All that waits, above everything else of a page; nothing where nothing waits.
export function Approvals({ clusters, may }) {
  const { value, problem } = useWaiting();
  if (problem) return h(Problem, null, `Which approvals wait could not be read: ${problem}`);
  if (!value?.length) return null;
  const live = Object.fromEntries(clusters.map((cluster) => [cluster.name, cluster.live?.version]));
  return h(
    Card,
    { title: value.length === 1 ? "One approval waits" : `${value.length} approvals wait` },
    value.map((waiting) =>
      h(
        VStack,
        { key: waiting.runId, align: "stretch", gap: 1 },
        h(Approval, { waiting, live: live[waiting.cluster], may }),
        h(Verdict, { cluster: clusters.find(({ name }) => name === waiting.cluster), waiting }),
      ),
    ),
  );
}

// What the gate said of the release that waits, and where all about it stands.
const Verdict = ({ cluster, waiting }) =>
  h(
    Text,
    null,
    cluster?.challenger?.version === waiting.version ? `${cluster.challenger.sentence} ` : "",
    h(Go, { to: `/plugin/lucid/releases/${encodeURIComponent(waiting.cluster)}/${waiting.version}` }, "All about this release"),
  );
