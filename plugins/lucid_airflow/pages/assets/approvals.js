// Approvals that wait for a person: asked of Airflow's own list of required actions, and answered through its API.

import { Act, Followed, airflow } from "./acting.js";
import { Card, Go, Problem, Time, h, muted } from "./cards.js";
import { useAnswer } from "./reading.js";

const { useState } = globalThis.React;
const { HStack, Text, VStack } = globalThis.ChakraUI;
const DAG_ID = "publish_release";
const WAITS = ["awaiting_input", "deferred"];

const taskAddress = ({ runId, taskId }) => `dags/${DAG_ID}/dagRuns/${encodeURIComponent(runId)}/taskInstances/${taskId}`;

// What waits, oldest first: { cluster, version, live, beside, reason, subject, askedAt, runId, taskId, mapIndex,
// options, startedBy }; `live` is the version that was live when it was asked (0: none), `beside` how this one is beside that,
// the reason is what the gate said.
async function readWaiting() {
  const states = WAITS.map((state) => `&state=${state}`).join("");
  const { hitl_details: asked } = await airflow("GET", `dags/${DAG_ID}/dagRuns/~/hitlDetails?response_received=false&limit=100&order_by=created_at${states}`);
  return Promise.all(
    asked.map(async ({ subject, created_at: askedAt, options, task_instance: task }) => {
      const waiting = { subject, askedAt, options, runId: task.dag_run_id, taskId: task.task_id, mapIndex: task.map_index };
      const judged = await airflow("GET", `${taskAddress({ ...waiting, taskId: "check_verdict" })}/xcomEntries/return_value?stringify=false`);
      const { cluster, version, live, beside, reason, started_by: startedBy = [] } = judged.value;
      return { ...waiting, cluster, version: Number(version), live, beside, reason, startedBy };
    }),
  );
}

export const useWaiting = () => useAnswer(readWaiting, DAG_ID);

// The runs that this person has let go on from here, and how to answer another one.
export function useAnswered() {
  const [answered, setAnswered] = useState([]);
  const answer = async (waiting, option, reason) => {
    const path = `${taskAddress(waiting)}/${waiting.mapIndex}/hitlDetails`;
    await airflow("PATCH", path, { chosen_options: [option], params_input: { reason } });
    setAnswered((before) => [...before, { dag_id: DAG_ID, dag_run_id: waiting.runId, state: "running" }]);
  };
  return { answer, going: answered.map((run) => h(Followed, { key: run.dag_run_id, run })) };
}

const CONSEQUENCE = {
  Approve: ({ cluster, version, beside }, live) =>
    live === version
      ? `Release ${version} of ${cluster} is live already: nothing changes.`
      : `Release ${version} of ${cluster} goes live${live ? ` in place of release ${live}` : ""}. ${beside ?? ""} Its schedulers follow at their next poll.`,
  Reject: ({ cluster, version }, live) =>
    `Release ${version} of ${cluster} stays where it is, and ${live ? `release ${live} stays live` : "nothing goes live"}.`,
};

// Whether another release went live since it was asked: what would be approved was weighed against the one before.
// Where it is not known what is live (undefined), publish_release itself looks.
const expired = ({ version, live: replaces }, live) =>
  live !== undefined && replaces !== undefined && live !== version && (live ?? 0) !== replaces;

// Whether this person started what led to it: then another must approve it.
const ownOf = ({ startedBy }, { person, four_eyes: fourEyes }) => fourEyes && startedBy.includes(person);

// One question with its buttons; `live`: the version that is live now (null: none; undefined: not known); `may`:
// whether this person may answer, by `answer`; `seen`: who they are, and the site's rule; `about`: what the gate said stands beside it, with the way to all about
// the release. An expired one can only be rejected.
export const Approval = ({ waiting, live, may, seen, answer, about = false }) =>
  h(
    VStack,
    { align: "stretch", gap: 2 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Text, { fontWeight: "semibold" }, waiting.subject),
      muted("asked ", h(Time, { iso: waiting.askedAt })),
      h(Go, { to: `/dags/${DAG_ID}/runs/${encodeURIComponent(waiting.runId)}` }, "Run"),
    ),
    about &&
      h(
        Text,
        null,
        `${waiting.reason} `,
        h(Go, { to: `/plugin/lucid/releases/${encodeURIComponent(waiting.cluster)}/${waiting.version}` }, "All about this release"),
      ),
    expired(waiting, live)
      ? h(
          Text,
          { color: "fg.warning" },
          `It has expired: it was asked when ${waiting.live ? `release ${waiting.live}` : "nothing"} was live, and now ${live ? `release ${live}` : "nothing"} is. Reject it; whoever still wants release ${waiting.version} publishes it from its page.`,
        )
      : h(Text, null, waiting.beside),
    ownOf(waiting, seen) && h(Text, { color: "fg.warning" }, "You started what led to it: another person must approve it."),
    h(
      HStack,
      { wrap: "wrap", align: "start" },
      waiting.options.map((option, i) =>
        h(Act, {
          key: option,
          label: option,
          may,
          disabled: option === "Approve" && (expired(waiting, live) || ownOf(waiting, seen)),
          silent: i < waiting.options.length - 1,
          danger: option === "Reject",
          confirm: CONSEQUENCE[option]?.(waiting, live) ?? waiting.subject,
          reason: "Why? It is kept with the release.",
          act: (reason) => answer(waiting, option, reason),
        }),
      ),
    ),
  );

const WAITING = ["No approval waits any more", "One approval waits"];

// All that waits, above everything else of a page; nothing where nothing waits. `clusters`: those whose releases
// could be read.
export function Approvals({ clusters, seen }) {
  const { value, problem } = useWaiting();
  const { answer, going } = useAnswered();
  if (problem) return h(Problem, null, `Which approvals wait could not be read: ${problem}`);
  if (!value?.length && !going.length) return null;
  const live = Object.fromEntries(clusters.filter((each) => !each.problem).map((each) => [each.name, each.live?.version ?? null]));
  return h(
    Card,
    { title: WAITING[value?.length ?? 0] ?? `${value.length} approvals wait` },
    value?.map((waiting) => h(Approval, { key: waiting.runId, waiting, live: live[waiting.cluster], may: (seen.may_with[waiting.cluster] ?? seen.may).approve, seen, answer, about: true })),
    going,
  );
}
