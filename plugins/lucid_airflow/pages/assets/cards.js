// Parts that pages share, in Airflow's own look: Chakra UI, as the host page has it.

import { address } from "./reading.js";
import { ago, moment } from "./words.js";

const React = globalThis.React;
const { Alert, Badge, Box, HStack, Heading, Link, NativeSelect, Spinner, Table, Text, VStack } = globalThis.ChakraUI;
const { Link: RouterLink } = globalThis.ReactRouterDOM;

export const h = React.createElement;

const PALETTE = { success: "green", running: "blue", failed: "red", approved: "green", ok: "green", passed: "green", live: "blue", refused: "red", missing: "red", done: "green", attention: "orange", blocks: "red", retrain: "red", watch: "orange" };

export const Word = ({ children }) => h(Badge, { colorPalette: PALETTE[children] ?? "gray" }, children);

// What is said beside the matter.
export const muted = (...words) => h(Text, { color: "fg.muted" }, ...words);

export const Time = ({ iso }) => h("time", { dateTime: iso, title: moment(iso) }, ago(iso));

// A move inside of Airflow's pages, without loading them anew.
export const Go = ({ to, here, children }) =>
  h(Link, { asChild: true, colorPalette: "blue", "aria-current": here ? "page" : undefined, fontWeight: here ? "bold" : undefined }, h(RouterLink, { to }, children));

// One of our kept pages or another server's, in a tab of its own.
export const Out = ({ href, children }) =>
  h(Link, { href, target: "_blank", rel: "noopener", colorPalette: "blue" }, children);

// Airflow has no address of a DAG's form: its button is at the top right of the DAG's page.
export const Form = ({ dagId, may, children }) =>
  may === false ? null : h(Text, { as: "span" }, h(Go, { to: `/dags/${dagId}` }, children), " (button Trigger)");

// Of a field that offers a choice; there is nothing in it for who does not see it.
export const Arrow = () => h(NativeSelect.Indicator, { "aria-hidden": true });

export const Problem = ({ children }) =>
  h(Alert.Root, { status: "error", role: "alert" }, h(Alert.Indicator), h(Alert.Content, null, children));

export const Waiting = () => h(HStack, { role: "status" }, h(Spinner, { size: "sm" }), h(Text, null, "Reading ..."));

export const Card = ({ title, to, aside, children }) =>
  h(
    Box,
    { as: "section", "aria-label": title, borderWidth: 1, borderRadius: "md", p: 4, bg: "bg" },
    h(HStack, { justify: "space-between", mb: 2, wrap: "wrap" }, h(Heading, { size: "md", as: "h2" }, to ? h(Go, { to }, title) : title), aside),
    h(VStack, { align: "stretch", gap: 3 }, children),
  );

export const Line = ({ label, children }) =>
  h(
    HStack,
    { align: "start", gap: 3 },
    h(Text, { minW: "8.5rem", color: "fg.muted" }, label),
    h(Box, { flex: 1 }, children),
  );

// A table; what is wider than the page scrolls in itself.
export const Rows = ({ columns, rows }) =>
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

// The numbers behind a picture as a table, which opens below it.
export const Folded = ({ columns, rows }) =>
  h("details", null, h("summary", { style: { cursor: "pointer" } }, "The same as a table"), h(Rows, { columns, rows }));

export const keptPage = (kind, path) => address(`${kind}/${path}`);
