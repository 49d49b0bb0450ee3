// What people do here, they do through Airflow's own REST API with the login of the page: its roles decide, and
// a refusal is shown in the server's words.

import { Problem, h } from "./cards.js";

const { useState } = globalThis.React;
const { Button, Dialog, Field, HStack, Portal, Text, Textarea, VStack } = globalThis.ChakraUI;
const { useNavigate } = globalThis.ReactRouterDOM;

const said = (detail) => (typeof detail === "string" ? detail : detail?.map?.((each) => each.msg).join(" "));

// One call of Airflow's API; `path` begins behind api/v2/.
export async function airflow(method, path, body) {
  const response = await fetch(new URL(`api/v2/${path}`, document.baseURI).href, {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(said(answer.detail) || `Airflow answered ${response.status}.`);
  return answer;
}

// Starts a run of a DAG with these fields of its form; the run as Airflow describes it.
export const trigger = (dagId, conf) =>
  airflow("POST", `dags/${encodeURIComponent(dagId)}/dagRuns`, { logical_date: null, conf });

export const runAddress = (run) =>
  `/dags/${encodeURIComponent(run.dag_id)}/runs/${encodeURIComponent(run.dag_run_id)}`;

// A button that says what it does. `act(reason)` does it and may return the address to go to. With `confirm`, a
// sentence, people are asked first; with `reason`, the label of a field, also why. Without the right (`may` is
// false) it stays visible and says so.
export function Act({ label, act, may = true, confirm, reason, danger = false, disabled = false }) {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const [because, setBecause] = useState("");
  const navigate = useNavigate();
  const colorPalette = danger ? "red" : "blue";

  const run = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const to = await act(because);
      setAsking(false);
      if (typeof to === "string") navigate(to);
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };

  if (!may)
    return h(HStack, null, h(Button, { size: "sm", disabled: true }, label), h(Text, { color: "fg.muted" }, "Your role may not do this."));
  return h(
    VStack,
    { align: "start", gap: 2 },
    h(Button, { size: "sm", colorPalette, loading: busy && !asking, disabled, onClick: confirm ? () => setAsking(true) : run }, label),
    problem && !asking && h(Problem, null, problem),
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
                      h(Textarea, { value: because, onChange: (event) => setBecause(event.target.value) }),
                    ),
                  problem && h(Problem, null, problem),
                ),
              ),
              h(
                Dialog.Footer,
                null,
                h(Button, { variant: "outline", onClick: () => setAsking(false) }, "Cancel"),
                h(Button, { colorPalette, loading: busy, onClick: run }, label),
              ),
            ),
          ),
        ),
      ),
  );
}
