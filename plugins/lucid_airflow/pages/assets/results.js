// The tab Results of a DAG: its newest runs, and what came of each, in the words of their notes.

import { Go, Problem, Waiting, Word, h } from "./cards.js";
import { airflow, runAddress } from "./acting.js";
import { moment } from "./words.js";
import { useAnswer } from "./reading.js";

const { Box, Table, Text } = globalThis.ChakraUI;
const SHOWN = 25;
const COLUMNS = ["Run", "State", "Started by", "What came of it"];

const Run = ({ run }) =>
  h(
    Table.Row,
    null,
    h(Table.Cell, { whiteSpace: "nowrap" }, h(Go, { to: `${runAddress(run)}/plugin/result` }, moment(run.run_after))),
    h(Table.Cell, null, h(Word, null, run.state)),
    h(Table.Cell, null, run.triggering_user_name ?? run.run_type.replaceAll("_", " ")),
    h(Table.Cell, { whiteSpace: "pre-line" }, run.note ?? (run.conf?.cluster ? `Cluster ${run.conf.cluster}.` : "")),
  );

globalThis.Results = function Results({ dagId }) {
  const path = `dags/${encodeURIComponent(dagId)}/dagRuns?order_by=-run_after&limit=${SHOWN}`;
  const { value, problem } = useAnswer(() => airflow("GET", path), dagId);
  const runs = value?.dag_runs ?? [];
  return h(
    Box,
    { p: 4, overflowY: "auto", h: "100%", "aria-live": "polite" },
    problem && h(Problem, null, problem),
    !value && !problem && h(Waiting),
    value && !runs.length && h(Text, null, "It has not run yet: the button Trigger, at the top right, opens its form."),
    runs.length > 0 &&
      h(
        Table.Root,
        { size: "sm" },
        h(Table.Header, null, h(Table.Row, null, COLUMNS.map((name) => h(Table.ColumnHeader, { key: name }, name)))),
        h(Table.Body, null, runs.map((run) => h(Run, { key: run.dag_run_id, run }))),
      ),
  );
};
