// The tab Result of a run and of a task: what came of it, in one sentence and one picture.

import { airflow } from "./acting.js";
import { Bars } from "./charts.js";
import { Card, Form, Go, Problem, Waiting, Word, h, keptPage, muted } from "./cards.js";
import { Summary } from "./release.js";
import { useAnswer } from "./reading.js";

const { Alert, Box, Text, VStack } = globalThis.ChakraUI;
// Of a run: what it came to, else that there was nothing to do. Of a task: also what it did on the way.
const [RESULT, NOTHING, STEP] = ["run_result", "nothing_to_do", "step_result"];

// What the tasks of a run have told, in the order in which they did; of one task alone with `taskId`.
async function readResults(dagId, runId, taskId, mapIndex = -1) {
  const run = `dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}/taskInstances`;
  const told = async (key) => {
    const { xcom_entries: entries } = await airflow("GET", `${run}/${taskId ? encodeURIComponent(taskId) : "~"}/xcomEntries?xcom_key=${key}&limit=100`);
    return entries.filter((entry) => !taskId || entry.map_index === Number(mapIndex));
  };
  let entries = await told(RESULT);
  if (taskId) entries.push(...(await told(STEP)));
  if (!entries.length) entries = await told(NOTHING);
  const inOrder = [...entries].sort((one, other) => one.timestamp.localeCompare(other.timestamp));
  return Promise.all(
    inOrder.map(async ({ key, task_id, map_index }) => {
      const entry = await airflow("GET", `${run}/${encodeURIComponent(task_id)}/xcomEntries/${key}?map_index=${map_index}`);
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

const Notice = ({ status, title, children }) =>
  h(Alert.Root, { status }, h(Alert.Indicator), h(Alert.Content, null, h(Alert.Title, null, title), h(Alert.Description, null, children)));

function Sentence({ result, dagId }) {
  const { sentence, outcome, forms } = result;
  if (outcome === "refused") return h(Notice, { status: "warning", title: "Refused" }, sentence);
  if (outcome === "nothing") return h(Notice, { status: "info", title: "Nothing to do" }, sentence);
  if (outcome !== "failed") return h(Text, { fontSize: "lg" }, sentence);
  return [
    h(Problem, { key: "why" }, sentence),
    ...(forms.length ? forms : [dagId]).map((each) => h(Form, { key: each, dagId: each }, `Mend it by the form of ${each}`)),
  ];
}

const Told = ({ result, dagId, picture }) =>
  h(
    Card,
    { title: result.task, aside: result.outcome !== "done" && h(Word, null, result.outcome) },
    h(Sentence, { result, dagId }),
    result.bars && h(Bars, { title: result.bars.title, rows: result.bars.rows }),
    picture && result.release && h(Summary, { ...result.release, refused: result.outcome === "refused" }),
    picture && result.page && (result.page.startsWith("plugin/") ? h(Go, { to: `/${result.page}` }, "All about it") : h(Frame, { page: result.page })),
  );

globalThis.Result = function Result({ dagId, runId, taskId, mapIndex }) {
  const { value: results, problem } = useAnswer(
    () => readResults(dagId, runId, taskId, mapIndex),
    `${dagId} ${runId} ${taskId} ${mapIndex}`,
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
      results && !results.length && muted("Nothing was told yet. A task says what it came to when it ends."),
      results?.map((result, i) => h(Told, { key: i, result, dagId, picture: i === last })),
    ),
  );
};
