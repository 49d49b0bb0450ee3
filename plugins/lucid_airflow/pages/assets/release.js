// The page of a release: the verdict in words, what decided it, what differs, what it rests on.

import { Approval, useAnswered, useWaiting } from "./approvals.js";
import { AgainstLimit, Changes, Dots } from "./charts.js";
import { Card, Go, Out, Problem, Rows, Time, Waiting, Word, h, muted } from "./cards.js";
import { Decided, PublishButton, RollbackButton } from "./clusters.js";
import { count, duration, figure, plain, spoken } from "./words.js";
import { GradeCard } from "./wait_grade.js";
import { useReading } from "./reading.js";
import { StartRun, judgingIsAsked, trainingIsAsked, useUnderWay } from "./under_way.js";

const { HStack, Heading, Text, VStack } = globalThis.ChakraUI;

const WORDS = { true: "passed", false: "blocks", null: "not measured" };
const ORDER = { false: 0, null: 1, true: 2 };

// The objective as a constraint like the others: the upper bound of its change against the margin.
function objectiveRow(objective) {
  const measured = objective.change_high_pct != null;
  return {
    name: `${spoken(objective.name)}: not worse`,
    unit: "% change (upper bound)",
    challenger: measured ? objective.change_high_pct : null,
    limit: measured ? objective.margin_pct : null,
    passed: objective.passed,
    sentence: `${objective.reason[0].toUpperCase()}${objective.reason.slice(1)}.`,
  };
}

const Constraints = ({ verdict }) =>
  h(Rows, {
    columns: ["", "Constraint", "Value and limit", "In words"],
    rows: [objectiveRow(verdict.objective), ...verdict.constraints]
      .sort((one, other) => ORDER[one.passed] - ORDER[other.passed])
      .map((each) => [
        h(Word, null, WORDS[each.passed]),
        spoken(each.name),
        h(AgainstLimit, { value: each.challenger, limit: each.limit, passed: each.passed, unit: each.unit }),
        each.sentence,
      ]),
  });

function Comparisons({ verdict }) {
  const rows = verdict.comparisons
    .filter((row) => row.change_pct != null)
    .map((row) => ({
      name: `against ${row.policy.replaceAll("_", " ")}`,
      change: row.change_pct,
      low: row.change_low_pct,
      high: row.change_high_pct,
      outcome: row.outcome,
      words: `${figure(row.change_pct)} %${row.change_low_pct == null ? "" : ` (${figure(row.change_low_pct)} to ${figure(row.change_high_pct)})`}, ${row.outcome}`,
    }));
  return rows.length ? h(Changes, { rows, unit: "%" }) : null;
}

const TITLES = {
  mean_jct_s: "Mean JCT",
  mean_queuing_delay_s: "Mean queuing",
  p99_queuing_delay_s: "P99 queuing",
  longest_wait_s: "Longest wait",
  utilisation_pct: "Work done (% of GPU-hours)",
  preemptions: "Preemptions",
};

const Policies = ({ policies }) =>
  h(Rows, {
    columns: ["Policy", ...Object.values(TITLES)],
    rows: policies.map((row) => [row.policy.replaceAll("_", " "), ...Object.keys(TITLES).map((name) => (name.endsWith("_s") ? duration(row[name]) : figure(row[name])))]),
  });

function Queuing({ rows }) {
  const series = Object.keys(rows[0]).filter((name) => name !== "virtual_cluster" && name !== "jobs");
  const named = rows
    .map((row) => ({ ...row, name: row.virtual_cluster, aside: ` (${count(row.jobs, "job")})` }))
    .sort((one, other) => other[series[0]] - one[series[0]]);
  return h(Dots, { rows: named, series, unit: "s" });
}

// What a person does with it: answer the question that waits, publish it, take it back, have it judged; where
// something stands against it, train again.
function Decision({ seen, version }) {
  const { release, live, champion, beside_the_live: beside, previous, obstacles, may, approval_required: required } = seen;
  const { cluster } = release;
  const { value: waiting } = useWaiting();
  const runs = useUnderWay();
  const { answer, going } = useAnswered();
  const asked = waiting?.find((each) => each.cluster === cluster && each.version === version);
  if (asked) return h(Approval, { waiting: asked, live: champion, may: may.approve, seen, answer });
  if (going.length) return going;
  if (live) return previous ? h(RollbackButton, { cluster, live: version, previous, may: may.rollback }) : null;
  if (!obstacles.length) return h(PublishButton, { cluster, version, live: champion, beside, may: may.publish });
  const judge = {
    runs,
    dagId: "validate_release",
    cluster,
    conf: { version },
    may: may.validate,
    confirm: judgingIsAsked(cluster, version, required),
  };
  if (!release.verdict) return h(StartRun, { label: "Let the gate judge it", ...judge });
  return h(
    HStack,
    { wrap: "wrap", align: "start" },
    h(StartRun, {
      runs,
      dagId: "retrain_models",
      cluster,
      label: "Train the models anew",
      may: may.retrain,
      silent: true,
      confirm: trainingIsAsked(cluster, required),
    }),
    h(StartRun, { label: "Have it judged again", ...judge }),
  );
}

function Models({ models, mlflow }) {
  const figures = (model) =>
    model.problem
      ? h(Text, { color: "fg.error" }, model.problem)
      : model.figures.map((each) =>
          h(
            Text,
            { key: each.what },
            `${each.what} `,
            h("strong", null, `${figure(each.value)} ${each.unit}`),
            each.rival &&
              h(Text, { as: "span", color: each.better ? "fg.muted" : "fg.warning" }, ` (${each.better ? "" : "not better than "}${each.rival}: ${figure(each.rival_value)} ${each.unit})`),
          ),
        );
  return h(Rows, {
    columns: ["Model", "On what it did not see, beside the best of the simple rivals", ""],
    rows: models.map((model) => [
      h(VStack, { align: "start", gap: 0 }, h(Text, null, model.title), h(Text, { color: "fg.muted", fontSize: "sm" }, `version ${model.version}, predicts ${model.predicts}`)),
      figures(model),
      mlflow && h(Out, { href: `${mlflow}/#/models/${model.name}/versions/${model.version}` }, "Card in MLflow"),
    ]),
  });
}

// What a run shows of the release that it is about; with `refused` the run itself says why.
export function Summary({ cluster, version, refused }) {
  const { value } = useReading(`releases/${encodeURIComponent(cluster)}/${version}`);
  if (!value) return h(Waiting);
  const verdict = value.release.verdict;
  return h(
    VStack,
    { align: "stretch", gap: 2 },
    h(Go, { to: `/plugin/lucid/releases/${encodeURIComponent(cluster)}/${version}` }, `All about release ${version} of ${cluster}`),
    !refused && value.obstacles.map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
    verdict?.comparisons && h(Comparisons, { verdict }),
  );
}

const Versions = ({ cluster, versions, version }) =>
  h(
    HStack,
    { as: "nav", "aria-label": "Releases of this cluster", wrap: "wrap" },
    muted(`Releases of ${cluster}:`),
    versions.map((each) => h(Go, { key: each, to: `/plugin/lucid/releases/${encodeURIComponent(cluster)}/${each}`, here: each === version }, `${each}`)),
  );

// The place releases/CLUSTER/VERSION.
export function ReleasePage({ parts: [cluster, version] }) {
  const { value, problem } = useReading(`releases/${encodeURIComponent(cluster)}/${encodeURIComponent(version)}`);
  if (!value) return problem ? h(Problem, null, problem) : h(Waiting);
  const { release, before, differences, warnings, obstacles, queuing, mlflow } = value;
  const { verdict } = release;
  return h(
    VStack,
    { align: "stretch", gap: 4 },
    h(
      HStack,
      { wrap: "wrap" },
      h(Heading, { as: "h1", size: "xl" }, `Release ${release.version} of ${release.cluster}`),
      value.live && h(Word, null, "live"),
      h(Word, null, verdict?.status ?? "not judged"),
      muted(`runs ${release.policy}, built `, h(Time, { iso: release.created })),
    ),
    h(Versions, { cluster: release.cluster, versions: value.versions, version: release.version }),
    problem && h(Problem, null, problem),
    h(
      Card,
      { title: "Verdict" },
      h(Text, { fontSize: "lg" }, verdict?.sentence || "The gate has not judged it yet."),
      verdict?.problem && h(Problem, null, verdict.problem),
      obstacles.filter((obstacle) => !verdict || !obstacle.includes(verdict.sentence)).map((obstacle, i) => h(Text, { key: i, color: "fg.error" }, obstacle)),
      warnings.map((warning, i) => h(Text, { key: i, color: "fg.warning" }, warning)),
      value.turned_down && h(Decided, { decision: value.turned_down }),
      release.went_live && h(Decided, { decision: release.went_live }),
      value.live && h(Text, null, "It is live: schedulers of this cluster follow it."),
      h(Decision, { seen: value, version: release.version }),
    ),
    verdict?.constraints && h(Card, { title: "Constraints, blocking ones first" }, h(Constraints, { verdict })),
    verdict?.policies?.length > 0 &&
      h(
        Card,
        { title: "Mean JCT beside each policy: the change, and what chance could make of it" },
        h(Comparisons, { verdict }),
        muted(`Left of 0 the release is better. A bar is the ${verdict.objective.confidence_pct} % interval; one that crosses 0 may be chance.`),
        h(Policies, { policies: verdict.policies }),
      ),
    verdict?.grade && h(GradeCard, { grade: verdict.grade }),
    queuing?.length > 0 && h(Card, { title: "Mean queuing by virtual cluster, the longest first" }, h(Queuing, { rows: queuing })),
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
      h(Models, { models: value.models, mlflow }),
      muted(`They learned from jobs until ${release.training.until.slice(0, 10)}.`),
      ...value.said_by_parts.map((said) => muted(said)),
    ),
    value.parts.map((part) =>
      h(Card, { key: part.title, title: part.title }, h(Rows, { columns: ["Setting", "Value"], rows: part.settings.map((each) => [each.what, plain(each.value)]) })),
    ),
    verdict?.assumptions?.length > 0 &&
      h(Card, { title: "What the verdict assumes" }, verdict.assumptions.map((said, i) => h(Text, { key: i }, said))),
  );
}
