// Tables of plain cells: the numbers behind a picture, for those who read rather than look.

import { h } from "./cards.js";

const { Box, Table } = globalThis.ChakraUI;

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

// A table that opens below its picture.
export const Folded = ({ title = "The same as a table", columns, rows }) =>
  h("details", null, h("summary", { style: { cursor: "pointer" } }, title), h(Rows, { columns, rows }));
