// The course of the total over the snapshots. A brushed range is what every view shows.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatDuration, formatValue } from "../core/units";
import { metricHelp } from "../core/metrics";
import type { App } from "./app_api";

export function clock(ms: number): string {
  if (ms === 0) return "at a time that it does not say";
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

const hour = (ms: number): string => new Date(ms).toLocaleTimeString(undefined, { timeStyle: "medium" });

const binary = Array.from({ length: 60 }, (_, i) => 2 ** i);
const decimal = Array.from({ length: 54 }, (_, i) => [1, 2, 5][i % 3]! * 10 ** Math.floor(i / 3));

/** Snapshots by their weight, as people choose them. */
const weights: [string, number, number][] = [
  ["all snapshots", 0, 1],
  ["the heaviest half", 0.5, 1],
  ["the heaviest tenth", 0.9, 1],
  ["the lightest half", 0, 0.5],
];

/** The totals between which a choice of weights lies, both included. */
function boundsOf(sorted: number[], low: number, high: number): [number, number] {
  const at = (place: number) => sorted[Math.min(sorted.length - 1, Math.max(0, place))] ?? 0;
  return [at(Math.ceil(low * sorted.length)), high === 1 ? Infinity : at(Math.ceil(high * sorted.length) - 1)];
}

export function Timeline({ app }: { app: App }) {
  const { model, state, dark } = app;
  const metric = model.metric(state);
  const moments = model.moments(state);
  const totals = model.timeline(state);
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [width, setWidth] = useState(0);
  const several = moments.length > 1;

  useLayoutEffect(() => {
    if (element.current === null) return;
    const observer = new ResizeObserver(() => setWidth(element.current?.clientWidth ?? 0));
    observer.observe(element.current);
    setWidth(element.current.clientWidth);
    return () => observer.disconnect();
  }, [several]);

  useEffect(() => {
    if (!several || element.current === null || width === 0) return;
    const ink = dark ? "#a2a5ad" : "#6b675f";
    const line = dark ? "#e3a45c" : "#c06a14";
    const chart = new uPlot(
      {
        width,
        height: 96,
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
        axes: [
          { stroke: ink, grid: { show: false }, ticks: { stroke: dark ? "#3a3c43" : "#ddd9d2" }, size: 26, space: 90, font: "11px system-ui" },
          {
            stroke: ink,
            grid: { stroke: dark ? "#2c2e34" : "#eeebe6" },
            ticks: { show: false },
            size: 76,
            space: 26,
            incrs: metric.unit === "bytes" ? binary : decimal,
            font: "11px system-ui",
            values: (_, splits) => splits.map((value) => formatValue(value, metric.unit)),
          },
        ],
        series: [
          {},
          { stroke: line, width: 1.75, fill: dark ? "#e3a45c22" : "#c06a1418", points: { show: moments.length <= 80, size: 5, fill: line } },
        ],
        hooks: {
          setSelect: [
            (u) => {
              if (u.select.width < 3) return;
              const from = u.posToVal(u.select.left, "x") * 1000;
              const to = u.posToVal(u.select.left + u.select.width, "x") * 1000;
              brush(from, to);
            },
          ],
        },
      },
      [moments.map((ms) => ms / 1000), totals],
      element.current,
    );
    plot.current = chart;
    chart.root.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
    return () => chart.destroy();
  }, [width, dark, several, metric.kind, metric.name, state.process]);

  // What is brushed, also when it came from the address.
  useEffect(() => {
    const chart = plot.current;
    if (chart === null || !several) return;
    if (state.from < 0 && state.to < 0) {
      chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      return;
    }
    const from = chart.valToPos(moments[Math.max(0, Math.min(state.from, moments.length - 1))]! / 1000, "x");
    const to = chart.valToPos(moments[state.to < 0 ? moments.length - 1 : Math.min(state.to, moments.length - 1)]! / 1000, "x");
    chart.setSelect({ left: from, top: 0, width: Math.max(2, to - from), height: chart.bbox.height / devicePixelRatio }, false);
  }, [state.from, state.to, width, dark, metric.name, metric.kind, state.process]);

  const brush = (fromMs: number, toMs: number) => {
    let from = -1;
    let to = -1;
    moments.forEach((ms, i) => {
      if (ms <= fromMs) from = i;
      if (ms <= toMs) to = i;
    });
    if (to < 0) to = 0;
    app.set({ from: Math.min(from, to), to: to === moments.length - 1 && from < 0 ? -1 : to });
  };
  if (!several) {
    return (
      <section class="timeline single" aria-label="Timeline">
        {moments.length === 1
          ? `One snapshot, ${clock(moments[0]!)}. Several show a course and growth: run longer, or --snapshot-every 10s.`
          : "No snapshot of this kind."}
      </section>
    );
  }
  const shownTo = state.to < 0 ? moments.length - 1 : Math.min(state.to, moments.length - 1);
  const shownFrom = Math.min(state.from, shownTo);
  const meaning = metric.isCounter
    ? shownFrom < 0
      ? `everything since the start, until ${hour(moments[shownTo]!)}`
      : `what came between ${hour(moments[shownFrom]!)} and ${hour(moments[shownTo]!)} (${formatDuration(moments[shownTo]! - moments[shownFrom]!)})`
    : state.mean
      ? `the mean of ${shownTo - Math.max(0, shownFrom) + 1} snapshots`
      : `the state at ${hour(moments[shownTo]!)}`;
  const amounts = totals.map((value, i) => (metric.isCounter ? value - (totals[i - 1] ?? 0) : value));
  const sorted = [...amounts].sort((a, b) => a - b);
  const weightIndex =
    state.weight === null ? 0 : weights.findIndex(([, low, high]) => String(boundsOf(sorted, low, high)) === String(state.weight));
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="plot" ref={element} data-testid="timeline" aria-hidden="true" />
      <div class="timeline-controls">
        <span>
          <b>{metricHelp(metric.kind, metric.name).title}</b> over {moments.length} snapshots in {formatDuration(moments[moments.length - 1]! - moments[0]!)}.{" "}
          Shown: {meaning}.
        </span>
        <label>
          from{" "}
          <select value={String(shownFrom)} onChange={(event) => app.set({ from: Number(event.currentTarget.value) })} data-testid="from">
            <option value="-1">start</option>
            {moments.map((ms, i) => (
              <option key={ms} value={String(i)} disabled={i > shownTo}>
                {hour(ms)}
              </option>
            ))}
          </select>
        </label>
        <label>
          to{" "}
          <select value={String(shownTo)} onChange={(event) => app.set({ to: Number(event.currentTarget.value) })} data-testid="to">
            {moments.map((ms, i) => (
              <option key={ms} value={String(i)} disabled={i < shownFrom}>
                {hour(ms)}
              </option>
            ))}
          </select>
        </label>
        {!metric.isCounter && (
          <label title="The mean over the range instead of its last snapshot">
            <input type="checkbox" checked={state.mean} onChange={() => app.set({ mean: !state.mean })} /> mean
          </label>
        )}
        <label title="Only snapshots with a total like this; their mean, or what they added">
          weight{" "}
          <select
            value={String(weightIndex)}
            data-testid="weight"
            onChange={(event) => {
              const [, low, high] = weights[Number(event.currentTarget.value)]!;
              app.set({ weight: low === 0 && high === 1 ? null : boundsOf(sorted, low, high) });
            }}
          >
            {weights.map(([text], i) => (
              <option key={text} value={String(i)}>
                {text}
              </option>
            ))}
            {weightIndex < 0 && <option value="-1">as in the address</option>}
          </select>
        </label>
        {(state.from >= 0 || state.to >= 0) && (
          <button class="quiet" onClick={() => app.set({ from: -1, to: -1 })}>
            Whole time
          </button>
        )}
      </div>
    </section>
  );
}
