// What if: the form, what runs, and the results of the past, each with an address of its own.

import { Card, Go, Problem, Rows, Time, Waiting, h, muted } from "./cards.js";
import { WhatIfForm } from "./what_if_form.js";
import { WhatIfResult } from "./what_if_result.js";
import { airflow, runAddress } from "./acting.js";
import { count, duration } from "./words.js";
import { read, useAnswer, useLook, useReading } from "./reading.js";

const { Box, HStack, Heading, Progress, Text, VStack } = globalThis.ChakraUI;
const { useState } = globalThis.React;

export const DAG_ID = "evaluate_policies";
export const placeOf = (runId) => `/plugin/lucid/what-if/${encodeURIComponent(runId)}`;
const OVER = ["success", "failed"];

export function WhatIf({ parts: [runId, other] }) {
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(Heading, { as: "h1", size: "xl" }, "What if"),
    runId ? h(Asked, { key: runId, runId, other }) : h(Start),
  );
}

function Start() {
  const { value, problem } = useLook("what-if/form");
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    problem && h(Problem, null, problem),
    !value && !problem && h(Waiting),
    value && h(WhatIfForm, { choices: value, placeOf, dagId: DAG_ID }),
    h(Past),
  );
}

function Past() {
  const { value, problem } = useReading("what-if/kept");
  const [chosen, setChosen] = useState([]);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const toggle = (id) => setChosen(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id].slice(-2));
  return h(
    Card,
    { title: "Past what-ifs" },
    !value.what_ifs.length && h(Text, null, "Nobody has asked yet."),
    value.what_ifs.length > 0 &&
      h(Rows, {
        columns: ["Beside each other", "Asked", "By", "Cluster", "Variants and their mean queuing"],
        rows: value.what_ifs.map((each) => [
          h("input", {
            type: "checkbox",
            "aria-label": `Compare the what-if of ${each.asked_at}`,
            checked: chosen.includes(each.run_id),
            onChange: () => toggle(each.run_id),
          }),
          h(Go, { to: placeOf(each.run_id) }, h(Time, { iso: each.asked_at })),
          each.asked_by || "somebody",
          each.cluster,
          each.variants
            .map((variant) => `${variant.name}: ${variant.error ? "failed" : duration(variant.mean_queuing_delay_s)}`)
            .join("; "),
        ]),
      }),
    chosen.length === 2 &&
      h(Go, { to: `${placeOf(chosen[0])}/${encodeURIComponent(chosen[1])}` }, "See the two that are ticked beside each other"),
  );
}

function Asked({ runId, other }) {
  const [kept, setKept] = useState(false);
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(Box, null, h(Go, { to: "/plugin/lucid/what-if" }, "Ask another, or see past ones")),
    !kept && h(Running, { runId, onKept: () => setKept(true) }),
    kept && h(WhatIfResult, { runId }),
    kept && other && h(Heading, { as: "h2", size: "lg" }, "Beside it"),
    kept && other && h(WhatIfResult, { key: other, runId: other }),
  );
}

// How far a run is, by its tasks in Airflow, until its result is kept.
function Running({ runId, onKept }) {
  const run = `dags/${DAG_ID}/dagRuns/${encodeURIComponent(runId)}`;
  const { value, problem } = useAnswer(async () => {
    const { kept } = await read(`what-if/is-kept?run_id=${encodeURIComponent(runId)}`);
    if (kept) {
      onKept();
      return null;
    }
    const [about, tasks] = await Promise.all([airflow("GET", run), airflow("GET", `${run}/taskInstances?limit=200`)]);
    return { about, tasks: tasks.task_instances };
  }, runId, 2_000);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const { about, tasks } = value;
  const replays = tasks.filter((task) => task.task_id === "simulate_runs" && task.map_index >= 0);
  const over = replays.filter((task) => OVER.includes(task.state));
  const now = replays.filter((task) => task.state === "running").map((task) => Number.isNaN(Number(task.rendered_map_index ?? "0")) ? task.rendered_map_index : `replay ${task.map_index + 1}`);
  const words =
    about.state === "queued"
      ? "It waits until Airflow has room for it."
      : !replays.length
        ? "The jobs are read, and the replays are planned."
        : over.length < replays.length
          ? `${over.length} of ${count(replays.length, "replay")} done${now.length ? `; now: ${now.join(", ")}` : ""}.`
          : "All replays are done; their figures are worked out.";
  if (OVER.includes(about.state))
    return h(
      Problem,
      null,
      about.state === "failed" ? about.note || "The run failed." : "The run is over, and its result is not kept any more: ask it again. ",
      " ",
      h(Go, { to: runAddress(about) }, "The run in Airflow"),
    );
  return h(
    Card,
    { title: "It runs" },
    h(Text, { role: "status", "aria-live": "polite" }, words),
    h(Progress.Root, { value: replays.length ? (100 * over.length) / replays.length : null, "aria-label": "Replays that are done" }, h(Progress.Track, null, h(Progress.Range))),
    h(HStack, null, h(Go, { to: runAddress(about) }, "The run in Airflow"), muted("This page may be left: its address stays.")),
    problem && h(Problem, null, problem),
  );
}
