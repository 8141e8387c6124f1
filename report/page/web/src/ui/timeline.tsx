// The total over the snapshots, as a strip until it is enlarged. The brushed range is what every view shows. It is a range of time,
// so that it is the same in every metric and for every process.
import { courseOf, nodesThrough, residentOver } from "../core/course";
import type { Series } from "../core/data";
import { endedBy, isChosen, spanOf } from "../core/select";
import { formatDuration, formatValue } from "../core/units";
import { findMetric, highestPeak, isMemory, metricHelp } from "../core/metrics";
import type { View } from "../core/state";
import type { App } from "./app_api";
import { useFigures } from "./figures";
import { Lanes } from "./lanes";
import { useMedia } from "./media";
import { clockText, Plot, type Line } from "./plot";

export function clock(ms: number): string {
  if (ms === 0) return "at an unknown time";
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

const hour = (ms: number): string => clockText(ms, true);

/** Returns "Shown: 12:34:11, before the program freed memory at exit, 12:34:12". */
function freedAtExit({ freedAtExit: freed, snapshots }: Series): string {
  const shown = snapshots[snapshots.length - 1]!.ms;
  if (hour(shown) === hour(freed!)) return "Shown: just before the program freed memory at exit";
  return `Shown: ${hour(shown)}, before the program freed memory at exit, ${hour(freed!)}`;
}

/** Snapshots by their weight, as users choose them. */
const weights: [string, number, number][] = [
  ["all snapshots", 0, 1],
  ["the heaviest half", 0.5, 1],
  ["the heaviest tenth", 0.9, 1],
  ["the lightest half", 0, 0.5],
];

/** Returns the totals between which the chosen weights are, inclusive. */
function boundsOf(sorted: number[], low: number, high: number): [number, number] {
  const at = (place: number) => sorted[Math.min(sorted.length - 1, Math.max(0, place))] ?? 0;
  return [at(Math.ceil(low * sorted.length)), high === 1 ? Infinity : at(Math.ceil(high * sorted.length) - 1)];
}

/** Leaks and locks have a fixed metric, whatever the other views use; their timeline shows that metric. */
const metricOfView: Partial<Record<View, [kind: string, metric: string]>> = { leaks: ["heap", "heap/inuse_space"], locks: ["block", "block/delay"], memory: ["heap", "heap/inuse_space"] };

const mostParts = 6;
const wideFrom = "(min-width: 1200px)"; // as in summary.css

export function Timeline({ app }: { app: App }) {
  const hasLanes = metricOfView[app.state.view] === undefined && app.model.metric(app.state).kind === "wall";
  return (
    <>
      <Totals app={app} />
      {hasLanes && <Lanes app={app} />}
    </>
  );
}

function Totals({ app }: { app: App }) {
  const { model } = app;
  const isWide = useMedia(wideFrom);
  // The peak is one moment of the memory in use.
  const isPeak = model.metric(app.state).kind === "peak" && model.moments({ ...app.state, metric: "heap/inuse_space" }).length > 1 && metricOfView[app.state.view] === undefined;
  const [kind, own] = isPeak ? ["heap", "heap/inuse_space"] : metricOfView[app.state.view] ?? ["", ""];
  const state = own !== "" && model.report.series.some((series) => series.kind === kind && !series.base) ? { ...app.state, metric: own } : app.state;
  const metric = model.metric(state);
  const moments = model.moments(state);
  const totals = model.timeline(state);
  const several = moments.length > 1;
  const { selected: func, process, labels } = state;
  const course = useFigures(app, `${metric.kind} ${metric.name} ${func} ${process} ${JSON.stringify(labels)} ${several}`, () =>
    several && func >= 0 ? courseOf(model.report, metric, state, moments, nodesThrough(model.report, func)) : null,
  );
  const byOwner = useFigures(app, `parts ${metric.kind} ${metric.name} ${process} ${JSON.stringify(labels)} ${moments.length} ${isWide || app.state.course}`, () =>
    several && (isWide || app.state.course) && !metric.isCounter && isMemory(metric.kind) ? model.parts(state, mostParts) : null,
  );
  const parts: Line[] = (byOwner ?? []).map(({ func: owner, values }, i) => ({ name: owner < 0 ? "others" : model.shortName(owner), values, class: owner < 0 ? "band-6" : `band-${i === 6 ? 7 : i}` }));
  const isHeld = metric.name === "inuse_space" || metric.name === "peak_space";
  const peak = isHeld ? highestPeak(model.report, (series) => isChosen(series, process)) : null;
  const peakMetric = findMetric(model.report, "peak/peak_space");
  const peakText =
    peak === null ? null : peakMetric === undefined || metric.kind === "peak" || isPeak ? (
      <span class="timeline-peak"> Peak: {formatValue(peak.bytes, "bytes")} at {hour(peak.ms)}.</span>
    ) : (
      <button class="quiet timeline-peak" data-testid="peak" title="Show who held it then" onClick={() => app.set({ metric: "peak/peak_space", from: -1, to: -1 })}>
        Peak: {formatValue(peak.bytes, "bytes")} <span class="timeline-when">at {hour(peak.ms)}</span>
      </button>
    );
  // The report has no snapshot of the state after the exit handlers.
  const freed = metric.isCounter || isPeak ? [] : model.report.series.filter((series) => series.kind === metric.kind && !series.base && isChosen(series, process) && series.freedAtExit !== undefined);
  const freedText = freed.length === 0 || state.to >= 0 ? null : (
    <span class="timeline-freed" data-testid="freed-at-exit">
      {freed.length > 1 ? `Shown: ${freed.length} processes as they were before they freed memory at exit` : freedAtExit(freed[0]!)}
    </span>
  );
  const [shownFrom, shownTo] = spanOf(moments, state);
  const ended = shownTo < 0 || state.mean || isPeak ? { processes: 0, value: 0 } : endedBy(model.report, metric, process, moments, moments[shownTo]!);
  const endedText = ended.processes === 0 ? null : (
    <span class="timeline-freed" data-testid="ended" title="Choose a process to see what it held when it exited">
      {ended.processes} more {ended.processes === 1 ? "process" : "processes"} exited earlier with {formatValue(ended.value, metric.unit)} in use, not included in the total
    </span>
  );
  if (!several) {
    return (
      <section class="timeline single" aria-label="Timeline">
        {endedText}
        {freedText}
        {peakText}{" "}
        {metric.kind === "peak"
          ? ""
          : moments.length === 1
          ? `One snapshot, ${clock(moments[0]!)}. To see a timeline and growth, run longer or with --snapshot-every 10s.`
          : "No snapshot of this kind."}
      </section>
    );
  }
  const meaning = isPeak
    ? "the peak"
    : shownTo < 0
    ? "nothing: the range ends before the first snapshot"
    : metric.isCounter
    ? shownFrom < 0
      ? `everything from the start until ${hour(moments[shownTo]!)}`
      : `what was added between ${hour(moments[shownFrom]!)} and ${hour(moments[shownTo]!)} (${formatDuration(moments[shownTo]! - moments[shownFrom]!)})`
    : state.mean
      ? `the mean of ${shownTo - Math.max(0, shownFrom) + 1} snapshots`
      : `the state at ${hour(moments[shownTo]!)}`;
  const amounts = totals.map((value, i) => (metric.isCounter ? value - (totals[i - 1] ?? 0) : value));
  const sorted = [...amounts].sort((a, b) => a - b);
  const weightIndex =
    state.weight === null ? 0 : weights.findIndex(([, low, high]) => String(boundsOf(sorted, low, high)) === String(state.weight));
  const lines: Line[] = [{ name: metricHelp(metric.kind, metric.name).title, values: totals, class: "total" }];
  if (course !== null) lines.push({ name: model.shortName(func), values: course, class: "chosen" });
  const resident = metric.name === "inuse_space" ? residentOver(model.report, metric, process, moments) : null;
  if (resident !== null) lines.push({ name: "resident", values: resident, class: "resident" });
  const isBrushed = state.from >= 0 || state.to >= 0;
  return (
    <section class={`timeline ${state.course ? "open" : ""}`} aria-label="Timeline">
      <div class="timeline-strip">
        <button class="quiet" aria-expanded={state.course} title="Enlarge or reduce the timeline (l)" onClick={() => app.set({ course: !state.course })}>
          {state.course ? "▾" : "▸"} Timeline
        </button>
        <Plot moments={moments} lines={lines} parts={parts} tall={isWide} unit={metric.unit} range={state} onRange={(from, to) => app.set({ from, to, ...(isPeak ? { metric: "heap/inuse_space" } : {}) })} open={state.course} spike={peak === null ? null : { ms: peak.ms, value: peak.bytes }} />
        {peakText}
        {endedText}
        {freedText}
        {!state.course && (
          <span class="timeline-text">
            {moments.length} snapshots in {formatDuration(moments[moments.length - 1]! - moments[0]!)}, shown: {meaning}
          </span>
        )}
        {!state.course && isBrushed && (
          <button class="quiet" onClick={() => app.set({ from: -1, to: -1 })}>
            Whole time
          </button>
        )}
      </div>
      {state.course && parts.length > 0 && (
        <p class="timeline-parts">
          {parts.map((part) => (
            <span key={part.name}>
              <i class={`swatch ${part.class}`} /> {part.name}
            </span>
          ))}
        </p>
      )}
      {state.course && (
      <div class="timeline-controls">
        <span>
          <b>{metricHelp(metric.kind, metric.name).title}</b> over {moments.length} snapshots in {formatDuration(moments[moments.length - 1]! - moments[0]!)}.{" "}
          Shown: {meaning}.
          {course !== null && <span class="chosen"> {model.shortName(func)} below it.</span>}
          {resident !== null && <span class="resident"> Dashed: resident memory of the whole process.</span>}
        </span>
        <label>
          from{" "}
          <select value={String(shownFrom)} onChange={(event) => app.set({ from: moments[Number(event.currentTarget.value)] ?? -1 })} data-testid="from">
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
          <select value={String(shownTo)} onChange={(event) => app.set({ to: Number(event.currentTarget.value) === moments.length - 1 ? -1 : moments[Number(event.currentTarget.value)]! })} data-testid="to">
            {moments.map((ms, i) => (
              <option key={ms} value={String(i)} disabled={i < shownFrom}>
                {hour(ms)}
              </option>
            ))}
          </select>
        </label>
        {!metric.isCounter && (
          <label title="Show the mean over the range instead of its last snapshot">
            <input type="checkbox" checked={state.mean} onChange={() => app.set({ mean: !state.mean })} /> mean
          </label>
        )}
        <label title="Use only snapshots with such a total: their mean, or what they added">
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
        {isBrushed && (
          <button class="quiet" onClick={() => app.set({ from: -1, to: -1 })}>
            Whole time
          </button>
        )}
      </div>
      )}
    </section>
  );
}
