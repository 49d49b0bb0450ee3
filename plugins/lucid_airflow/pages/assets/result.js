// The tab Result of a run and of a task: what came of it, in one sentence and one picture.

import { Bars } from "./charts.js";
import { Card, Form, Problem, Waiting, h, keptPage } from "./cards.js";
import { Summary } from "./release.js";
import { useAnswer } from "./reading.js";

const { Box, Text, VStack } = globalThis.ChakraUI;
const KEY = "run_result";

async function ask(path) {
  const response = await fetch(new URL(`api/v2/${path}`, document.baseURI).href);
  if (!response.ok) throw new Error(`Airflow answered ${response.status} when it was asked for what this run told.`);
  return response.json();
}

// What the tasks of a run have told, in the order in which they did; of one task alone with `taskId`.
async function readResults(dagId, runId, taskId) {
  const run = `dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}/taskInstances`;
  const { xcom_entries: entries } = await ask(`${run}/${taskId ? encodeURIComponent(taskId) : "~"}/xcomEntries?xcom_key=${KEY}&limit=100`);
  const inOrder = [...entries].sort((one, other) => one.timestamp.localeCompare(other.timestamp));
  return Promise.all(
    inOrder.map(async ({ task_id, map_index }) => {
      const entry = await ask(`${run}/${encodeURIComponent(task_id)}/xcomEntries/${KEY}?map_index=${map_index}`);
      return { task: task_id, ...(typeof entry.value === "string" ? JSON.parse(entry.value) : entry.value) };
    }),
  );
}

const Frame = ({ page }) => {
  const [kind, ...rest] = page.replace(/^lucid\//, "").split("/");
  return h("iframe", {
    src: keptPage(kind, rest.join("/")),
    title: "The page that this run left",
    style: { width: "100%", height: "70vh", border: 0 },
  });
};

const Told = ({ result, dagId, picture }) =>
  h(
    Card,
    { title: result.task },
    result.failed
      ? [
          h(Problem, { key: "why" }, result.sentence),
          h(Form, { key: "form", dagId }, `Mend it in the form of ${dagId}`),
        ]
      : h(Text, { fontSize: "lg" }, result.sentence),
    result.bars && h(Bars, { title: result.bars.title, rows: result.bars.rows }),
    picture && result.release && h(Summary, result.release),
    picture && result.page && h(Frame, { page: result.page }),
  );

globalThis.Result = function Result({ dagId, runId, taskId }) {
  const { value: results, problem } = useAnswer(
    () => readResults(dagId, runId, taskId),
    `${dagId} ${runId} ${taskId}`,
  );
  // One picture a run: that of the last that has one.
  const last = results?.findLastIndex((result) => result.release || result.page);
  return h(
    Box,
    { p: 4, overflowY: "auto", h: "100%" },
    h(
      VStack,
      { align: "stretch", gap: 4, maxW: "76rem", "aria-live": "polite" },
      problem && h(Problem, null, problem),
      !results && !problem && h(Waiting),
      results && !results.length && h(Text, { color: "fg.muted" }, "Nothing was told yet. A task says what it came to when it ends."),
      results?.map((result, i) => h(Told, { key: i, result, dagId, picture: i === last })),
    ),
  );
};
