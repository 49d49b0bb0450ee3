// The page of a release: the verdict in words, what decided it, what differs, what it rests on.

import { AgainstLimit, Changes, Dots } from "./charts.js";
import { Card, Form, Go, Out, Problem, Time, Waiting, Word, h } from "./cards.js";
import { figure, plain } from "./words.js";
import { useReading } from "./reading.js";

const { Box, HStack, Heading, Table, Text, VStack } = globalThis.ChakraUI;

const Rows = ({ columns, rows }) =>
  h(
    Box,
    { overflowX: "auto" },
    h(
      Table.Root,
      { size: "sm" },
      h(Table.Header, null, h(Table.Row, null, columns.map((name) => h(Table.ColumnHeader, { key: name }, name)))),
      h(
        Table.Body,
        null,
        rows.map((cells, i) => h(Table.Row, { key: i }, cells.map((cell, k) => h(Table.Cell, { key: k }, cell)))),
      ),
    ),
  );

const WORDS = { true: "passed", false: "blocks", null: "not measured" };
const ORDER = { false: 0, null: 1, true: 2 };

const Constraints = ({ constraints }) =>
  h(Rows, {
    columns: ["", "Constraint", "Value and limit", "In words"],
    rows: [...constraints]
      .sort((one, other) => ORDER[one.passed] - ORDER[other.passed])
      .map((each) => [
        h(Word, null, WORDS[each.passed]),
        each.name.replaceAll("_", " "),
        h(AgainstLimit, { value: each.challenger, limit: each.limit, passed: each.passed }),
        each.sentence,
      ]),
  });

function Comparisons({ verdict }) {
  const rows = verdict.comparisons
    .filter((row) => row.change_pct != null)
    .map((row) => ({
      name: `against ${row.policy}`,
      change: row.change_pct,
      low: row.change_low_pct,
      high: row.change_high_pct,
      outcome: row.outcome,
      words: `${figure(row.challenger)} s against ${figure(row.other)} s, ${figure(row.change_pct)} %`,
    }));
  return rows.length ? h(Changes, { rows, unit: "%" }) : null;
}

const TITLES = {
  mean_jct_s: "Mean JCT (s)",
  mean_queuing_delay_s: "Mean queuing (s)",
  p99_queuing_delay_s: "P99 queuing (s)",
  longest_wait_s: "Longest wait (s)",
  utilisation_pct: "Work done (% of GPU-hours)",
  preemptions: "Preemptions",
};

const Policies = ({ policies }) =>
  h(Rows, {
    columns: ["Policy", ...Object.values(TITLES)],
    rows: policies.map((row) => [row.policy, ...Object.keys(TITLES).map((name) => figure(row[name]))]),
  });

function Queuing({ rows }) {
  const series = Object.keys(rows[0]).filter((name) => name !== "virtual_cluster" && name !== "jobs");
  const named = rows.map((row) => ({ ...row, name: `${row.virtual_cluster} (${figure(row.jobs)} jobs)` }));
  return h(Dots, { rows: named, series, unit: "s" });
}

function Decided({ release, live, obstacles, may }) {
  const decision = release.went_live;
  return h(
    VStack,
    { align: "stretch", gap: 1 },
    decision &&
      h(
        Text,
        null,
        `${decision.kind === "rollback" ? "Rolled back to" : "Published"} by ${decision.by || "somebody"} `,
        h(Time, { iso: decision.at }),
        decision.because ? `: ${decision.because}` : "",
      ),
    live && h(Text, null, "Schedulers of this cluster follow it now."),
    obstacles.map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
    !live && !obstacles.length && h(Form, { dagId: "publish_release", may: may.publish }, "Publish it"),
  );
}

// What a run shows of the release that it is about.
export function Summary({ cluster, version }) {
  const { value } = useReading(`releases/${encodeURIComponent(cluster)}/${version}`);
  if (!value) return h(Waiting);
  const verdict = value.release.verdict;
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(Go, { to: `/plugin/lucid/releases/${encodeURIComponent(cluster)}/${version}` }, `All about release ${version} of ${cluster}`),
    value.obstacles.map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
    verdict?.comparisons && h(Comparisons, { verdict }),
  );
}

// The place releases/CLUSTER/VERSION.
export function ReleasePage({ parts: [cluster, version] }) {
  const { value, problem } = useReading(`releases/${encodeURIComponent(cluster)}/${encodeURIComponent(version)}`);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const { release, before, differences, warnings, queuing, versions, mlflow } = value;
  const verdict = release.verdict;
  const judged = verdict?.policies;
  const model = (pin) => mlflow && h(Out, { href: `${mlflow}/#/models/${pin.name}/versions/${pin.version}` }, "card");
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Heading, { as: "h1", size: "xl" }, `Release ${release.version} of ${release.cluster}`),
      value.live && h(Word, null, "live"),
      h(Word, null, verdict?.status ?? "not judged"),
      h(Text, { color: "fg.muted" }, `runs ${release.policy}, built `, h(Time, { iso: release.created })),
    ),
    problem && h(Problem, null, problem),
    h(
      Card,
      { title: "Verdict" },
      h(Text, { fontSize: "lg" }, verdict?.sentence || "The gate has not judged it yet."),
      !verdict && h(Form, { dagId: "validate_release", may: value.may.validate }, "Have it judged: open validate_release"),
      verdict?.problem && h(Problem, null, verdict.problem),
      warnings.map((warning, i) => h(Text, { key: i, color: "fg.warning" }, warning)),
      h(Decided, { release, live: value.live, obstacles: value.obstacles, may: value.may }),
    ),
    judged?.length > 0 &&
      h(
        Card,
        { title: "Mean JCT beside each policy: the change, and what chance could make of it" },
        h(Comparisons, { verdict }),
        h(Text, { color: "fg.muted" }, `Left of 0 the release is better. A bar is the ${verdict.objective.confidence_pct} % interval; one that crosses 0 may be chance.`),
        h(Policies, { policies: judged }),
      ),
    verdict?.constraints && h(Card, { title: "Constraints, blocking ones first" }, h(Constraints, { constraints: verdict.constraints })),
    queuing?.length > 0 && h(Card, { title: "Mean queuing by virtual cluster (s)" }, h(Queuing, { rows: queuing })),
    h(
      Card,
      { title: before ? `What differs from release ${before}` : "What differs" },
      before
        ? differences.length
          ? h(Rows, {
              columns: ["", `Release ${before}`, `Release ${release.version}`],
              rows: differences.map((each) => [each.what, plain(each.before), plain(each.now)]),
            })
          : h(Text, null, "Nothing: the same models and settings.")
        : h(Text, null, "It is the cluster's first release."),
    ),
    h(
      Card,
      { title: "Models" },
      h(Rows, {
        columns: ["Model", "Version", "Digest", ""],
        rows: Object.entries(release.models).map(([kind, pin]) => [kind, pin.version, pin.digest.slice(0, 12), model(pin)]),
      }),
      h(Text, { color: "fg.muted" }, `Trained on jobs until ${release.training.until.slice(0, 10)}.`),
    ),
    verdict?.assumptions?.length > 0 &&
      h(Card, { title: "What the verdict assumes" }, verdict.assumptions.map((said, i) => h(Text, { key: i }, said))),
    h(
      HStack,
      { wrap: "wrap" },
      h(Text, { color: "fg.muted" }, "Releases of this cluster:"),
      versions.map((each) => h(Go, { key: each, to: `/plugin/lucid/releases/${release.cluster}/${each}` }, `${each}`)),
    ),
  );
}
