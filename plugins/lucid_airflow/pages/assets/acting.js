// What people do here, they do through Airflow's own REST API with the login of the page: its roles decide, and
// a refusal is shown in the server's words.

import { Go, Problem, Word, h, muted } from "./cards.js";
import { acted, askJson, useAnswer } from "./reading.js";

const { useEffect, useState } = globalThis.React;
const { Button, Dialog, Field, HStack, Portal, Text, Textarea, VStack } = globalThis.ChakraUI;
const { useNavigate } = globalThis.ReactRouterDOM;

const NOT_ALLOWED = "Your role may not do this.";

// One call of Airflow's API; `path` begins behind api/v2/.
export const airflow = (method, path, body) => askJson(new URL(`api/v2/${path}`, document.baseURI).href, { method, body });

// Starts a run of a DAG with these fields of its form; the run as Airflow describes it. Lists of runs show a run's
// id: the cluster is in front (with no two dots in a row, which Airflow does not take).
export const trigger = (dagId, conf) =>
  airflow("POST", `dags/${encodeURIComponent(dagId)}/dagRuns`, {
    logical_date: null,
    conf,
    dag_run_id: conf?.cluster ? `${conf.cluster.replace(/\.+/g, ".")}__${new Date().toISOString()}` : undefined,
  });

export const runAddress = (run) =>
  `/dags/${encodeURIComponent(run.dag_id)}/runs/${encodeURIComponent(run.dag_run_id)}`;

const OVER = ["success", "failed"];

// A run that was started here: its state, and when it is over the sentence that it left.
export function Followed({ run }) {
  const path = `dags/${encodeURIComponent(run.dag_id)}/dagRuns/${encodeURIComponent(run.dag_run_id)}`;
  const { value, problem } = useAnswer(() => airflow("GET", path), path, 3_000);
  const { state, note } = value ?? run;
  useEffect(() => {
    acted(); // returns nothing: React would call what it returns
  }, [state]);
  return h(
    HStack,
    { role: "status", wrap: "wrap" },
    h(Word, null, state),
    h(Go, { to: runAddress(run) }, "The run that was started"),
    OVER.includes(state) && note && h(Text, null, note),
    problem && h(Text, { color: "fg.error" }, problem),
  );
}

// A button that says what it does. `act(reason)` does it and may return the address to go to, or a run, which is
// followed below the button. With `confirm`, a sentence, people are asked first; with `reason`, the label of a
// field, also why, in at least `reasonLength` characters. Without the right (`may` is false) it stays visible and
// says so (`silent`: another button beside it does). `instead` stands in its place, until what was started here is
// followed.
export function Act({ label, act, may = true, silent = false, instead, confirm, reason, reasonLength = 0, danger = false, disabled = false }) {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const [because, setBecause] = useState("");
  const [started, setStarted] = useState(null);
  const navigate = useNavigate();
  const colorPalette = danger ? "red" : "blue";

  const run = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const done = await act(because.trim());
      setAsking(false);
      acted();
      if (typeof done === "string") navigate(done);
      if (done?.dag_run_id) setStarted(done);
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };

  if (!may)
    return h(HStack, null, h(Button, { size: "sm", disabled: true, title: NOT_ALLOWED }, label), !silent && muted(NOT_ALLOWED));
  return h(
    VStack,
    { align: "start", gap: 2 },
    instead && !started ? instead : h(Button, { size: "sm", colorPalette, variant: danger ? "outline" : "solid", loading: busy && !asking, disabled: disabled || Boolean(instead), onClick: confirm ? () => setAsking(true) : run }, label),
    problem && !asking && h(Problem, null, problem),
    started && h(Followed, { run: started }),
    confirm &&
      h(
        Dialog.Root,
        { open: asking, onOpenChange: ({ open }) => setAsking(open), role: "alertdialog" },
        h(
          Portal,
          null,
          h(Dialog.Backdrop),
          h(
            Dialog.Positioner,
            null,
            h(
              Dialog.Content,
              null,
              h(Dialog.Header, null, h(Dialog.Title, null, label)),
              h(
                Dialog.Body,
                null,
                h(
                  VStack,
                  { align: "stretch", gap: 3 },
                  h(Text, null, confirm),
                  reason &&
                    h(
                      Field.Root,
                      null,
                      h(Field.Label, null, reason),
                      h(Textarea, { value: because, maxLength: 1_000, onChange: (event) => setBecause(event.target.value) }),
                      reasonLength > 0 && h(Field.HelperText, null, `At least ${reasonLength} characters.`),
                    ),
                  problem && h(Problem, null, problem),
                ),
              ),
              h(
                Dialog.Footer,
                null,
                h(Button, { variant: "outline", onClick: () => setAsking(false) }, "Cancel"),
                h(Button, { colorPalette, loading: busy, disabled: because.trim().length < reasonLength, onClick: run }, label),
              ),
            ),
          ),
        ),
      ),
  );
}
