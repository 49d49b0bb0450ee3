// Why did this job wait: the longest waits of a variant, and what the simulator knows of the one that is picked.

import { Arrow, Card, Problem, Rows, Waiting, h } from "./cards.js";
import { Plot } from "./plots.js";
import { count, duration, figure, moment } from "./words.js";
import { useLook } from "./reading.js";

const { Box, Button, HStack, Heading, Input, NativeSelect, Text, VStack } = globalThis.ChakraUI;
const { useState } = globalThis.React;

const drawSpans = (jobs) => (colors) => {
  const waited = jobs.filter((job) => job.wait_s > 0);
  return {
    traces: [
      {
        type: "scatter",
        mode: "markers",
        marker: { color: colors.series[0], size: 6 },
        x: waited.map((job) => job.submitted),
        y: waited.map((job) => job.wait_s),
        customdata: waited.map((job) => job.row),
        text: waited.map((job) => `${job.gpus} GPUs, ${duration(job.wait_s)}, mostly for ${job.mostly}`),
        hovertemplate: "%{text}<extra></extra>",
      },
    ],
    layout: { xaxis: { type: "date" }, yaxis: { type: "log", title: { text: "Wait (s)" } } },
  };
};

const sizes = (jobs, all) =>
  jobs.length ? `${jobs.map((job) => `${job.job_id} (${job.gpus})`).join(", ")}${all > jobs.length ? ", ..." : ""}` : "none";

function Why({ runId, row }) {
  const { value, problem } = useLook(`what-if/kept/${encodeURIComponent(runId)}/job?row=${row}`);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const causes = Object.keys(value.variants[0].causes_s);
  return h(
    VStack,
    { align: "stretch", gap: 3, as: "section", "aria-label": `Why ${value.job.job_id} waited` },
    h(Heading, { as: "h3", size: "md" }, `Why ${value.job.job_id} waited, variant by variant`),
    h(Text, { color: "fg.muted" }, `${count(value.job.gpus, "GPU")} in ${value.job.virtual_cluster}, submitted ${moment(value.job.submitted)}${value.job.user ? ` by ${value.job.user}` : ""}`),
    h(Rows, {
      columns: ["Variant", "Waited", ...causes.map((cause) => `for ${cause}`)],
      rows: value.variants.map((each) => [each.name, duration(each.wait_s), ...causes.map((cause) => duration(each.causes_s[cause]))]),
    }),
    value.variants.map((each) =>
      h(
        Box,
        { key: each.name },
        h(Text, { fontWeight: "semibold" }, each.name),
        each.sentences.map((sentence, i) => h(Text, { key: i }, sentence)),
        each.wait_s > 0 &&
          h(Text, { color: "fg.muted" }, `At its submission ${count(each.ran_jobs, "job")} of its virtual cluster had begun, with ${figure(each.ran_gpus)} GPUs: ${sizes(each.ran, each.ran_jobs)}. ${count(each.waited_jobs, "job")} waited for ${figure(each.waited_gpus)} GPUs: ${sizes(each.waited, each.waited_jobs)}.`),
      ),
    ),
  );
}

export function Waits({ runId, virtualCluster, variants }) {
  const [variant, setVariant] = useState(variants[0].name);
  const [text, setText] = useState("");
  const [sought, setSought] = useState("");
  const [row, setRow] = useState(null);
  const of = virtualCluster ? `&virtual_cluster=${encodeURIComponent(virtualCluster)}` : "";
  const { value, problem } = useLook(
    `what-if/kept/${encodeURIComponent(runId)}/waits?variant=${encodeURIComponent(variant)}&text=${encodeURIComponent(sought)}${of}`,
  );
  const submit = (event) => {
    event.preventDefault();
    setSought(text);
  };
  return h(
    Card,
    { title: "Why did this job wait" },
    h(
      HStack,
      { wrap: "wrap", as: "form", onSubmit: submit },
      h("label", { htmlFor: `variant ${runId}` }, "Under"),
      h(
        NativeSelect.Root,
        { size: "sm", w: "18rem" },
        h(
          NativeSelect.Field,
          { id: `variant ${runId}`, value: variant, onChange: (event) => setVariant(event.target.value) },
          variants.map(({ name }) => h("option", { key: name, value: name }, name)),
        ),
        h(Arrow),
      ),
      h(Input, { size: "sm", w: "16rem", "aria-label": "Part of a job's id or of its user's name", placeholder: "job or user", value: text, onChange: (event) => setText(event.target.value) }),
      h(Button, { size: "sm", type: "submit", variant: "outline" }, "Find"),
    ),
    problem && h(Problem, null, problem),
    !value && !problem && h(Waiting),
    row != null && h(Why, { key: row, runId, row }),
    value && h(Plot, { draw: drawSpans(value.spans), of: value, height: 260, onPick: setRow, label: "The longest wait of each span of time, by submission" }),
    value && h(Text, { color: "fg.muted" }, "A dot is the job that waited longest of those submitted in its span of time: click it, or take a job of the table."),
    value &&
      h(Rows, {
        columns: ["", "Job", "User", "Virtual cluster", "GPUs", "Submitted", "Waited", "mostly for"],
        rows: value.jobs.map((job) => [
          h(Button, { size: "xs", variant: "outline", "aria-label": `Why did ${job.job_id} wait`, onClick: () => setRow(job.row) }, "Why?"),
          job.job_id,
          job.user ?? "–",
          job.virtual_cluster,
          figure(job.gpus),
          moment(job.submitted),
          duration(job.wait_s),
          job.mostly ?? "it did not wait",
        ]),
      }),
    value && value.matching > value.jobs.length && h(Text, { color: "fg.muted" }, `The ${value.jobs.length} that waited longest, of ${count(value.matching, "job")}.`),
  );
}
