// Interactive pictures by Plotly, which our server brings, in the page's own colours, light or dark.

import { address } from "./reading.js";
import { h } from "./cards.js";

const { useEffect, useRef, useState } = globalThis.React;

const NAMES = ["blue", "orange", "green", "purple", "red", "teal", "pink", "yellow", "cyan", "gray"];
const BUTTONS = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };

let library = null;

function load() {
  library ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = address("assets/plotly.min.js");
    script.onload = () => done(globalThis.Plotly);
    script.onerror = () => failed(new Error("The library of pictures did not load: the tables say the same."));
    document.head.append(script);
  });
  return library;
}

const resolved = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--chakra-colors-${name}`).trim();

function useColors() {
  const read = () => ({
    ink: resolved("fg") || "#444",
    faint: resolved("border") || "#ccc",
    paper: resolved("bg") || "#fff",
    series: NAMES.map((name) => resolved(`${name}-solid`) || name),
  });
  const [colors, setColors] = useState(read);
  useEffect(() => {
    const seen = new MutationObserver(() => setColors(read()));
    seen.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
    return () => seen.disconnect();
  }, []);
  return colors;
}

function based(layout, { ink, faint, paper }) {
  const axis = { gridcolor: faint, zerolinecolor: faint, linecolor: faint, automargin: true };
  const axes = Object.fromEntries(
    ["xaxis", "yaxis", "xaxis2", "yaxis2"].filter((name) => name in layout).map((name) => [name, { ...axis, ...layout[name] }]),
  );
  return {
    font: { color: ink },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    margin: { t: 24, r: 16, b: 40, l: 60 },
    legend: { orientation: "h", y: -0.18 },
    hoverlabel: { bgcolor: paper, bordercolor: faint, font: { color: ink } },
    uirevision: "kept",
    ...layout,
    ...axes,
  };
}

// `draw(colors)` returns { traces, layout }; drawn anew for another `of`. `label` says what is seen. `onZoom` is
// given the ends of the first axis, or null when all of it is seen again; `onPick` what a point has as customdata.
export function Plot({ draw, of, label, height = 340, onZoom, onPick }) {
  const place = useRef(null);
  const told = useRef({});
  told.current = { onZoom, onPick };
  const colors = useColors();
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let gone = false;
    load().then(
      async (plotly) => {
        if (gone) return;
        const { traces, layout } = draw(colors);
        const node = place.current;
        const fresh = !node.on;
        await plotly.react(node, traces, based(layout, colors), BUTTONS);
        if (!fresh) return;
        node.on("plotly_relayout", (change) => {
          if ("xaxis.range[0]" in change) told.current.onZoom?.([change["xaxis.range[0]"], change["xaxis.range[1]"]]);
          else if (change["xaxis.autorange"]) told.current.onZoom?.(null);
        });
        node.on("plotly_click", ({ points }) => told.current.onPick?.(points[0].customdata));
      },
      (error) => setProblem(error.message),
    );
    return () => {
      gone = true;
    };
  }, [of, colors]);
  useEffect(() => {
    const node = place.current;
    return () => globalThis.Plotly?.purge(node);
  }, []);
  return h(
    "figure",
    { "aria-label": label },
    problem && h("p", { role: "alert" }, problem),
    h("div", { ref: place, style: { width: "100%", height } }),
  );
}
