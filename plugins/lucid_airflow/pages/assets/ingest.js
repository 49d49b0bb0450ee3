// A log by hand: the file, how it will be read, the cluster and its nodes, and one button that starts ingest_logs.

import { Act, runAddress, trigger } from "./acting.js";
import { Arrow, Card, Form, Line, Problem, Rows, Waiting, h, muted } from "./cards.js";
import { count, figure, moment } from "./words.js";
import { sendFile, useLook } from "./reading.js";

const { useState } = globalThis.React;
const { Box, Button, Field, HStack, Heading, Input, NativeSelect, Text, VStack } = globalThis.ChakraUI;

const OWN_COLUMNS = "jobs-csv"; // the format whose files may call columns otherwise
const MOST_COUNTED = 200; // virtual clusters whose nodes are typed in; more are a file
const mib = (bytes) => (bytes < 2 ** 20 ? `${figure(bytes / 1024)} KiB` : `${figure(bytes / 2 ** 20)} MiB`);
// An array is a value that is given again and again.
const query = (values) =>
  new URLSearchParams(
    Object.entries(values).flatMap(([name, value]) => (Array.isArray(value) ? value : value === "" || value == null ? [] : [value]).map((each) => [name, each])),
  ).toString();

const Labelled = ({ label, help, problem, children }) =>
  h(
    Field.Root,
    { invalid: Boolean(problem), maxW: "44rem" },
    h(Field.Label, null, label),
    children,
    help && h(Field.HelperText, null, help),
    problem && h(Field.ErrorText, null, problem),
  );

const Select = ({ label, value, onChange, options, ...width }) =>
  h(
    NativeSelect.Root,
    { maxW: "44rem", ...width },
    h(
      NativeSelect.Field,
      { "aria-label": label, value, onChange: (event) => onChange(event.target.value) },
      options.map(([key, text]) => h("option", { key, value: key }, text)),
    ),
    h(Arrow),
  );

// A path on the server, or a file of this machine that is sent there first.
function FileChoice({ label, help, choices, value, onChange }) {
  const [sending, setSending] = useState(null);
  const [problem, setProblem] = useState(null);
  const send = async (file) => {
    setProblem(null);
    setSending(0);
    try {
      const kept = await sendFile(file, file.name, setSending);
      onChange(kept.path);
    } catch (error) {
      setProblem(error.message);
    } finally {
      setSending(null);
    }
  };
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(
      Labelled,
      { label, help },
      h(Input, { value, list: "lucid-files", placeholder: "a path on the server", onChange: (event) => onChange(event.target.value.trim()) }),
    ),
    h(
      HStack,
      { wrap: "wrap" },
      h(
        "label",
        null,
        "or upload one from this machine: ",
        h("input", {
          type: "file",
          "aria-label": `Upload: ${label}`,
          disabled: sending != null,
          onChange: (event) => event.target.files[0] && send(event.target.files[0]),
        }),
      ),
      sending != null && h(Text, { role: "status" }, `Sending ... ${figure(100 * sending)} %`),
      muted(`at most ${mib(choices.most_upload_bytes)}; uploads are removed after ${choices.uploads_kept_days} days`),
    ),
    problem && h(Problem, null, problem),
  );
}

const Export = ({ command }) =>
  h(
    "details",
    null,
    h("summary", null, "Export the accounting of a Slurm"),
    h(
      VStack,
      { align: "stretch", gap: 2, mt: 2 },
      muted("Where sacct runs; it asks for the last 90 days of all users' jobs. Of a busy cluster ask for fewer days at once and bring one file after the other: a job that stands in two is kept once."),
      h(Box, { as: "pre", role: "group", overflowX: "auto", fontSize: "xs", p: 2, bg: "bg.muted", tabIndex: 0, "aria-label": "Command that exports Slurm's accounting" }, command),
      muted("GPUs are in it where slurm.conf has AccountingStorageTRES=gres/gpu."),
    ),
  );

function FormatChoice({ seen, choices, format, onChange }) {
  const shares = Object.fromEntries(seen.guesses.map((guess) => [guess.name, guess.kept_pct]));
  const summaries = Object.fromEntries([...choices.formats, ...seen.guesses].map((each) => [each.name, each.summary]));
  const guessed = seen.guesses[0]?.name;
  const names = [...new Set([...seen.guesses.map((guess) => guess.name), ...Object.keys(summaries)])];
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(Text, null, seen.certainty),
    h(Select, {
      label: "Format",
      value: format ?? "",
      onChange: (name) => onChange(name || null),
      options: [
        ["", guessed ? `as guessed: ${guessed}` : "none was recognised: choose one"],
        ...names.map((name) => [name, `${name}: ${summaries[name]}${shares[name] ? ` (${figure(shares[name])} % of the first rows)` : ""}`]),
      ],
    }),
    !seen.guesses.length && seen.columns.length > 0 && h(Line, { label: "Columns seen" }, seen.columns.join(", ")),
    !seen.guesses.length && !format && h(Rows, { columns: ["Formats that are read", ""], rows: choices.formats.map((each) => [each.name, each.summary]) }),
  );
}

const day = (iso) => moment(iso).slice(0, 10);

// What the file calls the columns of the job table, of a CSV that has names of its own.
function ColumnNames({ seen, choices, columns, onChange }) {
  const called = (name) => seen.columns.find((each) => each.toLowerCase() === name);
  const named = (name, theirs) => onChange(Object.fromEntries(Object.entries({ ...columns, [name]: theirs }).filter(([, each]) => each)));
  return h(
    "details",
    { open: Boolean(seen.problem) || Object.keys(columns).length > 0 },
    h("summary", null, "What the file calls its columns"),
    h(Rows, {
      columns: ["Column of the job table", "In the file", ""],
      rows: Object.entries(choices.job_columns).map(([name, meaning]) => [
        name,
        h(Select, {
          label: `Column of the file for ${name}`,
          minW: "12rem",
          value: columns[name] ?? "",
          onChange: (theirs) => named(name, theirs),
          options: [["", called(name) ?? "not in it"], ...seen.columns.filter((each) => each.toLowerCase() !== name).map((each) => [each, each])],
        }),
        meaning,
      ]),
    }),
  );
}

function Contents({ seen }) {
  const { read } = seen;
  const part = read.whole ? "" : "In the first part of the file, which is what was looked at: ";
  const window = read.counts_from_zero
    ? `${figure((new Date(read.last_submit) - new Date(read.first_submit)) / 86_400_000)} days, counted from the log's own beginning`
    : read.first_submit && `${moment(read.first_submit)} to ${moment(read.last_submit)}`;
  return [
    h(Line, { key: "file", label: "File" }, `${seen.name}${seen.size_bytes == null ? "" : `, ${mib(seen.size_bytes)}`}`),
    h(
      Line,
      { key: "rows", label: "Rows" },
      `${part}${count(read.rows_in, "row")} = ${figure(read.kept)} kept + ${figure(read.quarantined)} quarantined + ${figure(read.skipped)} skipped`,
    ),
    window && h(Line, { key: "window", label: "Submitted" }, `${window}${read.whole ? "" : ", so far"} (clock of the log: ${read.time_zone})`),
    read.first_submit &&
      h(
        Line,
        { key: "jobs", label: "Jobs" },
        `${count(read.kept, "job")}, ${figure(read.gpu_jobs)} of them with GPUs; ${read.users ? `of ${count(read.users, "user")}` : "it names no users"}; in ${count(read.sizes.length, "virtual cluster")}`,
      ),
  ];
}

const LeftOut = ({ reasons }) =>
  h(Rows, {
    columns: ["Rows", "Why", "For example"],
    rows: reasons.map((each) => [
      figure(each.rows),
      `${each.quarantined ? "Quarantined" : "Skipped"} (${each.reason.replaceAll("_", " ")}): ${each.meaning}`,
      h(
        VStack,
        { align: "start", gap: 0 },
        each.samples.map((sample) =>
          h(Text, { key: sample.row, fontFamily: "mono", fontSize: "xs", wordBreak: "break-all" }, `row ${sample.row}${sample.column ? `, ${sample.column} = ${sample.value}` : sample.value ? `, ${sample.value}` : ""}: ${sample.text.slice(0, 200)}`),
        ),
      ),
    ]),
  });

// GPUs of a node: as typed in, else as the jobs of the log show.
const gpusOfNode = (nodes, size) => nodes.gpusPerNode || size.least.gpus_per_node;
const mostOfNode = (read) => Math.max(1, ...read.sizes.map((size) => size.least.gpus_per_node));

// What the log knows of the cluster's size, with a field for each virtual cluster where the nodes are typed in.
function Sizes({ read, nodes, onChange }) {
  const typed = nodes.from === "counts";
  const machines = read.sizes.some((size) => size.machines);
  const least = (size) => Math.max(1, size.least.machines, Math.ceil(size.least.gpus / gpusOfNode(nodes, size)));
  const few = typed ? read.sizes.filter((size) => nodes.counts[size.virtual_cluster] && Number(nodes.counts[size.virtual_cluster]) < least(size)).slice(0, 5) : [];
  const shown = read.sizes.slice(0, MOST_COUNTED);
  const unset = typed ? shown.filter((size) => !nodes.counts[size.virtual_cluster]) : [];
  const leastOfUnset = () => Object.fromEntries(unset.map((size) => [size.virtual_cluster, String(least(size))]));
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    shown.length > 1 &&
      unset.length > 0 &&
      read.last_end &&
      h(
        HStack,
        null,
        h(Button, { size: "xs", variant: "outline", onClick: () => onChange({ counts: { ...nodes.counts, ...leastOfUnset() } }) }, "Fill in the least"),
        muted(`as many nodes as the jobs need at once, in each empty field (${figure(unset.length)}); correct them where you know more.`),
      ),
    h(Rows, {
      columns: ["Virtual cluster", "Jobs", "Largest job (GPUs)", "GPUs at once", ...(machines ? ["Machines named"] : []), ...(typed ? ["GPUs of a node", "Nodes"] : [])],
      rows: shown.map((size) => [
        size.virtual_cluster,
        figure(size.jobs),
        read.last_end || size.largest_job_gpus ? figure(size.largest_job_gpus) : "not known", // of jobs that ran
        read.last_end ? figure(size.most_gpus) : "not known",
        ...(machines ? [figure(size.machines || null)] : []),
        ...(typed
          ? [
              figure(gpusOfNode(nodes, size)),
              h(Input, {
                type: "number",
                size: "xs",
                maxW: "8rem",
                min: 0,
                "aria-label": `Nodes of ${size.virtual_cluster}`,
                placeholder: `at least ${least(size)}`,
                value: nodes.counts[size.virtual_cluster] ?? "",
                onChange: (event) => onChange({ counts: { ...nodes.counts, [size.virtual_cluster]: event.target.value } }),
              }),
            ]
          : []),
      ]),
    }),
    few.length > 0 && h(Text, { color: "fg.warning" }, `Fewer than the jobs of the log need: ${few.map((size) => `${size.virtual_cluster} (at least ${least(size)})`).join(", ")}.`),
    read.shared_machines && h(Text, null, read.shared_machines),
    !read.last_end && muted("The log does not say when jobs started and ended, so how many GPUs were in use at once is not known."),
    !read.whole && muted("Counted in the first part of the file: the whole may name more virtual clusters, and need more GPUs."),
  );
}

function Nodes({ read, target, choices, nodes, file, onChange }) {
  const inLake = target?.data?.nodes;
  const stated = read.sizes.length === 1 && read.stated;
  const options = [
    inLake && ["lake", `as the lake has them: ${count(inLake, "node")}, ${count(target.data.gpus, "GPU")}`],
    stated && ["log", `as the log says: ${count(stated.nodes, "node")} of ${count(stated.gpus_per_node, "GPU")} (${stated.source})`],
    ["counts", "typed in here"],
    ["file", "a file: virtual_cluster,nodes[,gpus_per_node]"],
  ].filter(Boolean);
  const unnamed = read.sizes.map((size) => size.virtual_cluster).filter((name) => !file.value?.virtual_clusters.includes(name));
  const perNode = h(
    Labelled,
    { label: "GPUs of one node", help: nodes.from === "file" ? "Where the file does not say it." : "Empty: at least as many as the log's jobs show." },
    h(Input, { type: "number", min: 1, max: 64, maxW: "8rem", value: nodes.gpusPerNode, placeholder: `${mostOfNode(read)}`, onChange: (event) => onChange({ gpusPerNode: event.target.valueAsNumber || "" }) }),
  );
  return h(
    VStack,
    { align: "stretch", gap: 3 },
    !inLake && !stated && h(Text, { fontWeight: "semibold" }, "How many nodes the cluster has is known neither to the log nor to the lake. Without them no release can be proven on it."),
    h(Select, { label: "Nodes", value: nodes.from, onChange: (from) => onChange({ from }), options }),
    nodes.from === "file" && h(FileChoice, { label: "File of nodes", choices, value: nodes.uri, onChange: (uri) => onChange({ uri }) }),
    ["counts", "file"].includes(nodes.from) && perNode,
    nodes.from === "file" && file.problem && h(Problem, null, file.problem),
    nodes.from === "file" && file.value && unnamed.length > 0 && h(Text, { color: "fg.warning" }, `It does not name ${unnamed.slice(0, 5).join(", ")}${unnamed.length > 5 ? ` and ${unnamed.length - 5} more` : ""}: their jobs are left out of every replay.`),
    nodes.from === "file" && file.value && h(Text, null, `${count(file.value.nodes, "node")} with ${count(file.value.gpus, "GPU")} in ${count(file.value.virtual_clusters.length, "virtual cluster")}.`),
    h(Sizes, { read, nodes, onChange }),
  );
}

// Why the ingest would fail, in the order of the page; empty: it may begin.
function obstacles({ seen, target, nodes, file, cluster, loss }) {
  const { read } = seen;
  const missing = [];
  if (seen.problem) missing.push("The file cannot be ingested as it is: see 2.");
  if (read?.too_many_bad && !loss) missing.push("Too many rows are bad: see 2.");
  if (!cluster) missing.push("The cluster has no name yet.");
  else if (target?.problem) missing.push(target.problem);
  if (!read) return missing;
  const names = read.sizes.map((size) => size.virtual_cluster);
  if (nodes.from === "counts") {
    const unset = names.filter((name) => !/^\d+$/.test(nodes.counts[name] ?? ""));
    if (names.length > MOST_COUNTED) missing.push(`The log has ${count(names.length, "virtual cluster")}: give their nodes in a file.`);
    else if (unset.length) missing.push(`The nodes of ${unset.slice(0, 5).join(", ")}${unset.length > 5 ? ` and ${unset.length - 5} more` : ""} are missing.`);
  }
  if (nodes.from === "file") {
    if (!file.value) missing.push(file.problem ?? "The file of nodes is missing.");
    else if (!names.some((name) => file.value.virtual_clusters.includes(name)))
      missing.push(`The file of nodes names none of the log's virtual clusters (${names.slice(0, 5).join(", ")}).`);
  }
  return missing;
}

const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

// The nodes that were typed in as the file that ingest_logs reads.
const nodesFile = (nodes, read) =>
  new Blob([
    "virtual_cluster,nodes,gpus_per_node\n",
    ...read.sizes.map((size) => `${quoted(size.virtual_cluster)},${nodes.counts[size.virtual_cluster]},${gpusOfNode(nodes, size)}\n`),
  ]);

async function ingest({ place, read, format, zone, columns, cluster, nodes, loss }) {
  const typed = nodes.from === "counts" && (await sendFile(nodesFile(nodes, read), `${cluster}-nodes.csv`)).path;
  const conf = {
    source_format: format,
    input_uri: place,
    cluster,
    ...(zone && { time_zone: zone }),
    ...(Object.keys(columns).length > 0 && { columns }),
    ...(nodes.from === "file" && { nodes_uri: nodes.uri, gpus_per_node: nodes.gpusPerNode || mostOfNode(read) }),
    ...(typed && { nodes_uri: typed }),
    ...(loss && { max_bad_share: 1 }),
  };
  return runAddress(await trigger("ingest_logs", conf));
}

export function Ingest() {
  const { value: choices, problem: forbidden } = useLook("ingest");
  const [place, setPlace] = useState("");
  const [format, setFormat] = useState(null);
  const [zone, setZone] = useState("");
  const [cluster, setCluster] = useState("");
  const [loss, setLoss] = useState(false);
  const [columns, setColumns] = useState({}); // of the job table -> of the file
  const [given, setGiven] = useState({ counts: {}, uri: "", gpusPerNode: "" });

  const ofCluster = format === "sacct" ? cluster : ""; // an accounting may hold the jobs of several
  const look = useLook(place && `ingest/preview?${query({ input: place, format, time_zone: zone, cluster: ofCluster, column: Object.entries(columns).map((pair) => pair.join("=")) })}`);
  const { value: target } = useLook(cluster && `ingest/cluster?${query({ name: cluster })}`);
  const file = useLook(given.from === "file" && given.uri && `ingest/nodes?${query({ input: given.uri, gpus_per_node: given.gpusPerNode || (look.value?.read ? mostOfNode(look.value.read) : "") })}`);
  const change = (part) => setGiven((before) => ({ ...before, ...part }));
  const choose = (path) => {
    setPlace(path);
    setFormat(null);
    setColumns({});
    setLoss(false);
    change({ counts: {} });
  };

  if (!choices) return forbidden ? h(Problem, null, forbidden) : h(Waiting);
  const seen = look.value;
  const read = seen?.read;
  const oneStated = read?.stated && read.sizes.length === 1;
  const from = given.from ?? (target?.data?.nodes ? "lake" : oneStated ? "log" : "counts");
  const nodes = { ...given, from };
  const jobs = read && read.first_submit;
  const missing = seen ? obstacles({ seen, target, nodes, file, cluster, loss }) : [];
  return h(
    VStack,
    { align: "stretch", gap: 4, "aria-live": "polite" },
    h(Heading, { as: "h1", size: "xl" }, "Bring a cluster's log"),
    h("datalist", { id: "lucid-files" }, choices.files.map(({ path, size_bytes }) => h("option", { key: path, value: path }, mib(size_bytes)))),
    h("datalist", { id: "lucid-zones" }, Intl.supportedValuesOf("timeZone").map((name) => h("option", { key: name, value: name }))),
    h("datalist", { id: "lucid-clusters" }, choices.clusters.map((name) => h("option", { key: name, value: name }))),
    h(
      Card,
      { title: "1. The log" },
      h(FileChoice, {
        label: "Log",
        help: `Below ${choices.roots.join(", ")}; it may end in .gz.`,
        choices,
        value: place,
        onChange: choose,
      }),
      h(Export, { command: choices.sacct_command }),
      look.busy && h(Waiting),
      look.problem && h(Problem, null, look.problem),
    ),
    seen &&
      h(
        Card,
        { title: "2. How it will be read" },
        h(FormatChoice, { seen, choices, format, onChange: (name) => (setFormat(name), setColumns({})) }),
        seen.format === OWN_COLUMNS && h(ColumnNames, { seen, choices, columns, onChange: setColumns }),
        h(
          Labelled,
          { label: "Time zone", help: `Of times that name none. Empty: ${read && !zone ? read.time_zone : "what the format says"}.` },
          h(Input, { value: zone, list: "lucid-zones", maxW: "20rem", onChange: (event) => setZone(event.target.value.trim()) }),
        ),
        seen.problem && h(Problem, null, seen.problem),
        read && h(Contents, { seen }),
        read?.rows.length > 0 && h(Box, null, h(Heading, { as: "h3", size: "sm", mb: 1 }, "The first rows, times in UTC"), h(Rows, read)),
        read?.remarks.map((remark) => h(Text, { key: remark }, remark)),
        read?.reasons.length > 0 && h(Box, null, h(Heading, { as: "h3", size: "sm", mb: 1 }, "Rows that would not be kept"), h(LeftOut, read)),
        read?.too_many_bad && h(Problem, null, read.too_many_bad),
        read?.too_many_bad &&
          h("label", null, h("input", { type: "checkbox", checked: loss, onChange: () => setLoss(!loss) }), " The format is right: leave the bad rows out, however many they are."),
      ),
    jobs &&
      h(
        Card,
        { title: "3. The cluster" },
        h(
          Labelled,
          {
            label: "Name",
            help: "Letters, digits, '.', '_' and '-', at most 100, the first a letter or a digit. A name that is there already gets these jobs as well.",
            problem: cluster && target?.problem,
          },
          h(Input, { value: cluster, list: "lucid-clusters", maxW: "20rem", onChange: (event) => setCluster(event.target.value) }),
        ),
        target?.data && !target.problem && h(Text, null, `The lake holds ${target.data.days} days of ${target.name}, ${target.data.first_day} to ${target.data.last_day}: these jobs join them.`),
        h(Nodes, { read, target, choices, nodes, file, onChange: change }),
      ),
    seen &&
      h(
        Card,
        { title: "4. Ingest" },
        missing.map((sentence, i) => h(Text, { key: i, color: "fg.error" }, sentence)),
        h(Act, {
          label: `Ingest ${seen.name}${cluster ? ` as ${cluster}` : ""}`,
          disabled: missing.length > 0 || look.busy,
          act: () => ingest({ place, read, format: seen.format, zone, columns, cluster, nodes, loss }),
        }),
        muted("It starts ingest_logs and goes to its run; no row is lost without a reason. Days, profiles, throughput and more are fields of the ", h(Form, { dagId: "ingest_logs" }, "whole form"), "."),
      ),
  );
}
