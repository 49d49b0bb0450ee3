// How far a replay is like the log: its grade, the waits of both, what explains the difference, and the rule.

import { Card, Rows, h, muted } from "./cards.js";
import { duration, figure } from "./words.js";

const { Text } = globalThis.ChakraUI;

const FIGURES = { mean: "Mean", p50: "P50", p90: "P90", p999: "P99.9", sum: "Sum" };

const Waits = ({ groups }) =>
  h(Rows, {
    columns: ["Virtual cluster", "Jobs", ...Object.values(FIGURES).map((title) => `${title}: log, replay`), "Within x2 (%)"],
    rows: groups.map((group) => [
      group.group,
      figure(group.jobs),
      ...Object.keys(FIGURES).map((name) => `${duration(group.logged[name])}, ${duration(group.replayed[name])}`),
      figure(group.within_x2_pct),
    ]),
  });

export const GradeCard = ({ grade }) =>
  h(
    Card,
    { title: `Waits of the replay beside those of the log: ${grade.grade ? `grade ${grade.grade}` : "not graded"}` },
    h(Text, null, grade.sentence),
    grade.waits.length > 0 && h(Waits, { groups: grade.waits }),
    grade.explains.map((cause) => h(Text, { key: cause.name }, cause.sentence)),
    grade.not_modelled.map((each) => h(Text, { key: each, color: "fg.warning" }, `Declared, and not replayed: ${each}`)),
    muted(grade.rule),
  );
