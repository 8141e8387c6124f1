// Turns the user's choice (metric, snapshots, processes, labels, comparison) into values for the nodes of the report.
//
// Snapshots are cumulative. At a moment, each process counts with its latest snapshot. A range of time shows
//   counters (alloc_*, contentions, delay)   what was added between its ends
//   in use                                   the last snapshot in it, or the mean of all; without processes that had ended by then
// Both are sums of snapshots with coefficients, so one pass over the columns is enough.
import { combine, type Report, type Series } from "./data";
import { findMetric, metricIn, metricKey, type Metric } from "./metrics";

export interface LabelChoice {
  key: string;
  text: string;
}

export type Compare =
  | { type: "files" } // the base files and the others
  | { type: "time" } // the end of the range and its start
  | { type: "label"; key: string; base: string; head: string };

export interface Choice {
  metric: string;
  // Milliseconds since 1970, like the times of snapshots, so that a range fits every metric and process. −1: from the beginning,
  // and until the end.
  from: number;
  to: number;
  mean: boolean; // in use: the mean of the range instead of its last snapshot
  weight: [number, number] | null; // only snapshots with a total in this range
  process: string; // "" = all
  labels: LabelChoice[];
  compare: Compare | null;
  normalise: boolean; // base scaled to the total of head
  base?: boolean; // the files to compare with, alone
  mostRank?: 0 | 1; // of waits only those for locks, or for events as well
}

/** Returns the moments of a kind: the times of all its processes' snapshots, without base files. */
export function momentsOf(report: Report, kind: string, process: string): number[] {
  const times = new Set<number>();
  for (const series of report.series) {
    if (series.kind === kind && !series.base && isChosen(series, process)) {
      for (const snapshot of series.snapshots) times.add(snapshot.ms);
    }
  }
  return [...times].sort((a, b) => a - b);
}

export function isChosen(series: Series, process: string): boolean {
  return process === "" || series.process === process;
}

/** Labels of whole processes, which all samples of a series share. */
export const processKeys = ["pid", "host", "build id"] as const;

export function processLabel(report: Report, series: Series, key: string): string {
  if (key === "pid") return series.pid;
  if (key === "host") return series.process.includes("/") ? series.process.slice(0, series.process.indexOf("/")) : "";
  if (key !== "build id") return "";
  const executable = series.records.process?.executable;
  return report.objects.find(([path]) => path === executable)?.[1] ?? "";
}

export const isProcessKey = (key: string): boolean => (processKeys as readonly string[]).includes(key);

/** Whether a series passes the filters by labels of whole processes (values of one key: any of them). */
export function passes(report: Report, series: Series, labels: LabelChoice[]): boolean {
  return processKeys.every((key) => {
    const wanted = labels.filter((label) => label.key === key);
    return wanted.length === 0 || wanted.some(({ text }) => text === processLabel(report, series, key));
  });
}

/** Returns the index of the latest snapshot of a series at a moment, or −1. */
function latest(series: Series, ms: number): number {
  let index = -1;
  for (let i = 0; i < series.snapshots.length; ++i) if (series.snapshots[i]!.ms <= ms) index = i;
  return index;
}

/**
 * Whether a process has ended by a moment, so that a sum does not have what it held; the process alone shows what it held at its end.
 * Allocations and waits stay. `newest`: the last moment, at which the tool says who has ended.
 */
export function isGone(series: Series, metric: Metric, process: string, ms: number, newest: number): boolean {
  if (series.ended !== true || metric.isCounter || process !== "") return false;
  return series.base || ms >= newest || series.snapshots[series.snapshots.length - 1]!.ms < ms;
}

/** Of a metric that is an amount at one moment: what is not in the sum, and of how many processes. */
export function endedBy(report: Report, metric: Metric, process: string, moments: number[], ms: number): { processes: number; value: number } {
  const ended = { processes: 0, value: 0 };
  const newest = moments[moments.length - 1] ?? 0;
  for (const series of report.series) {
    const m = metricIn(series, metric);
    const index = latest(series, ms);
    if (m < 0 || series.base || index < 0 || !isGone(series, metric, process, ms, newest)) continue;
    ++ended.processes;
    ended.value += series.snapshots[index]!.totals[m]!;
  }
  return ended;
}

/** Returns the total of one metric at each moment: the line of the timeline. */
export function totalsOverTime(report: Report, metric: Metric, process: string, moments: number[]): number[] {
  return moments.map((ms) => {
    let sum = 0;
    for (const series of report.series) {
      if (series.kind !== metric.kind || series.base || !isChosen(series, process)) continue;
      if (isGone(series, metric, process, ms, moments[moments.length - 1]!)) continue;
      const index = latest(series, ms);
      const m = series.metrics.findIndex(([name]) => name === metric.name);
      if (index >= 0 && m >= 0) sum += series.snapshots[index]!.totals[m]!;
    }
    return sum;
  });
}

/** Returns the moments that the weight filter keeps: by the total of each, or by what was added since the previous one. */
function keptMoments(totals: number[], from: number, to: number, metric: Metric, weight: [number, number]): number[] {
  const kept: number[] = [];
  for (let i = from + 1; i <= to; ++i) {
    const value = metric.isCounter ? totals[i]! - (i > 0 ? totals[i - 1]! : 0) : totals[i]!;
    if (value >= weight[0] && value <= weight[1]) kept.push(i);
  }
  return kept;
}

/** Returns the last moment at or before a time, or −1. */
export function momentAt(moments: number[], ms: number): number {
  let low = 0;
  let high = moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moments[middle]! <= ms) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Returns the ends of the range as moments. from −1: since the beginning; to −1: nothing existed yet. */
export function spanOf(moments: number[], range: { from: number; to: number }): [from: number, to: number] {
  const to = range.to < 0 ? moments.length - 1 : momentAt(moments, range.to);
  return [range.from < 0 ? -1 : Math.min(momentAt(moments, range.from), to), to];
}

/** Returns the number of moments in a mean, or 1 if the state of one moment is shown. */
export function averagedOver(report: Report, choice: Choice): number {
  const metric = findMetric(report, choice.metric);
  if (metric === undefined || choice.compare?.type === "time") return 1;
  const moments = momentsOf(report, metric.kind, choice.process);
  const [from, to] = spanOf(moments, choice);
  const first = Math.max(from, 0);
  if (choice.weight !== null) return keptMoments(totalsOverTime(report, metric, choice.process, moments), first - 1, to, metric, choice.weight).length;
  return choice.mean ? to - first + 1 : 1;
}

/** The processes that were chosen by name or by a label of theirs; "": all, as a sum. */
const alone = ({ process, labels }: Choice): string => process || (labels.find(({ key }) => isProcessKey(key))?.text ?? "");

/** Returns the factor of each snapshot of a series. `at`: only the state at that moment. */
export function coefficientsOf(series: Series, report: Report, metric: Metric, choice: Choice, moments: number[]): number[] {
  const coefficients = new Array<number>(series.snapshots.length).fill(0);
  const newest = moments[moments.length - 1] ?? 0;
  const process = alone(choice);
  const add = (ms: number, by: number) => {
    const index = isGone(series, metric, process, ms, newest) ? -1 : latest(series, ms);
    if (index >= 0) coefficients[index]! += by;
  };
  if (series.base || moments.length === 0) {
    if (coefficients.length > 0 && !isGone(series, metric, process, newest, newest)) coefficients[coefficients.length - 1] = 1;
    return coefficients;
  }
  const [from, to] = spanOf(moments, choice);
  if (to < 0) return coefficients; // the range ends before the first snapshot
  if (choice.weight !== null) {
    const totals = totalsOverTime(report, metric, choice.process, moments);
    const kept = keptMoments(totals, metric.isCounter ? from : Math.max(from - 1, -1), to, metric, choice.weight);
    for (const i of kept) {
      add(moments[i]!, metric.isCounter ? 1 : 1 / kept.length);
      if (metric.isCounter && i > 0) add(moments[i - 1]!, -1);
    }
    return coefficients;
  }
  if (metric.isCounter) {
    add(moments[to]!, 1);
    if (from >= 0) add(moments[from]!, -1);
  } else if (choice.mean) {
    const first = Math.max(from, 0);
    for (let i = first; i <= to; ++i) add(moments[i]!, 1 / (to - first + 1));
  } else {
    add(moments[to]!, 1);
  }
  return coefficients;
}

export interface Values {
  columns: Float64Array[]; // over nodes: head; in a comparison also base, and the variance of head − base
  total: number;
  baseTotal: number;
  scale: number; // the factor applied to base
}

/** Returns which sets of labels match every chosen key (values of one key: any of them). */
export function labelFilter(report: Report, labels: LabelChoice[]): Uint8Array {
  const byKey = new Map<string, Set<string>>();
  for (const { key, text } of labels) if (!isProcessKey(key)) byKey.set(key, (byKey.get(key) ?? new Set()).add(text));
  return Uint8Array.from(report.labelSets, (set) =>
    [...byKey].every(([key, texts]) => set.some((label) => label.key === key && texts.has(label.text))) ? 1 : 0,
  );
}

function accumulate(column: Float64Array, series: Series, values: Float64Array, allowed: Uint8Array, scale = 1, mostRank = 2): void {
  for (let row = 0; row < values.length; ++row) {
    if (allowed[series.labels[row]!] === 1 && series.rank[row]! <= mostRank) column[series.node[row]!]! += values[row]! * scale;
  }
}

/** Returns the values of one side. `side` says which series belong to it. */
function sideColumn(
  report: Report,
  metric: Metric,
  choice: Choice,
  moments: number[],
  base: boolean,
): Float64Array {
  const column = new Float64Array(report.parent.length);
  const allowed = labelFilter(report, choice.labels);
  for (const series of report.series) {
    const m = metricIn(series, metric);
    if (m < 0 || series.base !== base || (!base && !(isChosen(series, choice.process) && passes(report, series, choice.labels)))) continue;
    accumulate(column, series, combine(series, m, coefficientsOf(series, report, metric, choice, moments)), allowed, 1, choice.mostRank);
  }
  return column;
}

/** Returns the choice with one value for a label, replacing earlier ones. */
const withLabel = (choice: Choice, key: string, text: string): Choice => ({
  ...choice,
  labels: [...choice.labels.filter((label) => label.key !== key), { key, text }],
});

const sumOf = (column: Float64Array): number => {
  let sum = 0;
  for (let i = 0; i < column.length; ++i) sum += column[i]!;
  return sum;
};

/** Returns the moment with which the end of a range is compared: its start, or the first snapshot. */
const startOf = (moments: number[], choice: Choice): number => (choice.from >= 0 ? choice.from : (moments[0] ?? 0));

export function valuesFor(report: Report, choice: Choice): Values {
  const metric = findMetric(report, choice.metric);
  if (metric === undefined) return { columns: [new Float64Array(report.parent.length)], total: 0, baseTotal: 0, scale: 1 };
  const moments = momentsOf(report, metric.kind, choice.process);
  const { compare } = choice;
  if (compare === null) {
    const head = sideColumn(report, metric, choice, moments, choice.base === true);
    return { columns: [head], total: sumOf(head), baseTotal: 0, scale: 1 };
  }
  let head: Float64Array;
  let base: Float64Array;
  if (compare.type === "time") {
    // Compares the states at the end and at the start, even for counters.
    const at = (ms: number) => sideColumn(report, metric, { ...choice, from: -1, to: ms, mean: false, weight: null }, moments, false);
    head = at(choice.to);
    base = at(startOf(moments, choice));
  } else if (compare.type === "files") {
    head = sideColumn(report, metric, choice, moments, false);
    base = sideColumn(report, metric, choice, moments, true);
  } else {
    head = sideColumn(report, metric, withLabel(choice, compare.key, compare.head), moments, false);
    base = sideColumn(report, metric, withLabel(choice, compare.key, compare.base), moments, false);
  }
  const total = sumOf(head);
  const baseTotal = sumOf(base);
  const scale = choice.normalise && baseTotal > 0 && total > 0 ? total / baseTotal : 1;
  const variance = varianceOfDifference(report, choice, metric, moments, scale);
  if (scale !== 1) for (let i = 0; i < base.length; ++i) base[i]! *= scale;
  return { columns: [head, base, variance], total, baseTotal, scale };
}

/**
 * Returns the ratio of a row's variance to its value (docs/sampling.md). A sample of s bytes with interval R is taken with p = 1 −
 * exp(−s/R); the variance is value·(1 − p)/p for objects and value·s·(1 − p)/p for bytes. For waits, s is the mean time.
 */
export function varianceFactor(interval: number, unit: string, size: number): number {
  if (interval <= 1 || !(size >= 0)) return 0;
  const p = -Math.expm1(-Math.max(size, 1) / interval);
  return ((1 - p) / p) * (unit === "count" ? 1 : size);
}

/** Returns the mean interval in the metric's own unit, or 0 if the file does not state it. */
export function intervalOf(series: Series): number {
  const intervals = series.records.sampling?.interval ?? [];
  if (intervals.length > 0) {
    // A sample does not say which one applied; most of a sum's error comes from the largest (report/analysis/variance.h).
    return Math.max(...intervals.map(({ mean }) => mean ?? 0));
  }
  return series.kind === "heap" ? series.period : 0;
}

/** Returns the metrics that count and measure the same samples: (inuse_objects, inuse_space), (contentions, delay). */
function pairOf(series: Series, m: number): [count: number, amount: number] {
  const find = (wanted: string) => series.metrics.findIndex(([name]) => name === wanted);
  const name = series.metrics[m]![0];
  if (name === "contentions" || name === "delay") return [find("contentions"), find("delay")];
  const prefix = name.slice(0, name.indexOf("_") + 1);
  return [find(`${prefix}objects`), find(`${prefix}space`)];
}

/** Returns the variance of each row of a series. Sizes are the means in the state given by `coefficients`. */
function rowVariance(series: Series, m: number, values: Float64Array, coefficients: number[]): Float64Array {
  const variance = new Float64Array(values.length);
  const [count, amount] = pairOf(series, m);
  if (count < 0 || amount < 0) return variance;
  const interval = intervalOf(series);
  const unit = series.metrics[m]![1];
  const counts = combine(series, count, coefficients);
  const amounts = combine(series, amount, coefficients);
  for (let row = 0; row < values.length; ++row) {
    if (counts[row]! > 0) variance[row] = Math.abs(values[row]!) * varianceFactor(interval, unit, amounts[row]! / counts[row]!);
  }
  return variance;
}

/** Whether the error of a metric is known: the file states the sampling, and sizes can be computed. */
export function hasError(series: Series, m: number): boolean {
  const interval = intervalOf(series);
  return interval === 1 || (interval > 1 && pairOf(series, m).every((index) => index >= 0));
}

const scales = new WeakMap<Series, number[]>();

/** Returns the factor from the sum over rows, with mean sizes, to the exact variance that the newest file states. */
function varianceScale(series: Series, m: number): number {
  const known = scales.get(series) ?? [];
  scales.set(series, known);
  if (known[m] === undefined) {
    const newest = series.snapshots.map((_, i) => (i === series.snapshots.length - 1 ? 1 : 0));
    const half = series.snapshots[series.snapshots.length - 1]!.halfWidths[m];
    let sum = 0;
    for (const v of rowVariance(series, m, combine(series, m, newest), newest)) sum += v;
    const scale = half === null || half === undefined || sum <= 0 ? 1 : (half / 1.96) ** 2 / sum;
    known[m] = Number.isFinite(scale) ? scale : 1;
  }
  return known[m]!;
}

/** Returns the variance over nodes of what is shown, for one side. */
export function varianceColumn(report: Report, choice: Choice, metric: Metric, base: boolean): Float64Array {
  const allowed = labelFilter(report, choice.labels);
  const moments = momentsOf(report, metric.kind, choice.process);
  const column = new Float64Array(report.parent.length);
  for (const series of report.series) {
    const m = metricIn(series, metric);
    if (m < 0 || series.base !== base || (!base && !(isChosen(series, choice.process) && passes(report, series, choice.labels)))) continue;
    const coefficients = coefficientsOf(series, report, metric, choice, moments);
    const variance = rowVariance(series, m, combine(series, m, coefficients), coefficients);
    accumulate(column, series, variance, allowed, varianceScale(series, m));
  }
  return column;
}

function varianceOfDifference(
  report: Report,
  choice: Choice,
  metric: Metric,
  moments: number[],
  scale: number,
): Float64Array {
  const { compare } = choice;
  if (compare?.type !== "time") {
    const labelled = compare?.type === "label" ? compare : null;
    const of = (text: "head" | "base") => (labelled === null ? choice : withLabel(choice, labelled.key, labelled[text]));
    const variance = varianceColumn(report, of("head"), metric, false);
    const base = varianceColumn(report, of("base"), metric, labelled === null);
    for (let i = 0; i < variance.length; ++i) variance[i]! += base[i]! * scale * scale;
    return variance;
  }
  // Two moments of one process share samples: only what was allocated or freed in between varies.
  const allocated = metric.isCounter ? metric : findMetric(report, metricKey({ kind: metric.kind, name: metric.name.replace("inuse_", "alloc_") }));
  const column = new Float64Array(report.parent.length);
  const allowed = labelFilter(report, choice.labels);
  for (const series of report.series) {
    const m = metricIn(series, metric);
    if (m < 0 || series.base || !isChosen(series, choice.process) || !passes(report, series, choice.labels)) continue;
    const change = new Array<number>(series.snapshots.length).fill(0);
    const at = (ms: number) => (isGone(series, metric, alone(choice), ms, moments[moments.length - 1] ?? 0) ? -1 : latest(series, ms));
    const end = at(choice.to < 0 ? Infinity : choice.to);
    const start = at(startOf(moments, choice));
    if (end >= 0) change[end]! += 1;
    if (start >= 0) change[start]! -= 1;
    const moved = combine(series, m, change);
    const a = allocated === undefined ? -1 : metricIn(series, allocated);
    if (!metric.isCounter && a >= 0) {
      const came = combine(series, a, change);
      for (let row = 0; row < moved.length; ++row) moved[row] = Math.max(0, 2 * came[row]! - moved[row]!);
    }
    const sizes = change.map((_, i) => (i === end ? 1 : 0));
    accumulate(column, series, rowVariance(series, a >= 0 ? a : m, moved, sizes), allowed, varianceScale(series, m));
  }
  return column;
}

/** Returns another metric of the same kind for the same choice: objects beside bytes, for a mean size. */
export function companionColumn(report: Report, choice: Choice, name: string): Float64Array | null {
  const metric = findMetric(report, choice.metric);
  const companion = metric === undefined ? undefined : findMetric(report, metricKey({ kind: metric.kind, name }));
  if (companion === undefined) return null;
  return sideColumn(
    report,
    companion,
    choice,
    momentsOf(report, companion.kind, choice.process),
    choice.base === true,
  );
}

/** Returns the 95 % half width of the total: exact from the files if one snapshot per process is shown, else recomputed. */
export function totalHalfWidth(report: Report, choice: Choice): number | null {
  const metric = findMetric(report, choice.metric);
  if (metric === undefined || choice.compare !== null || choice.weight !== null || choice.mean || choice.base === true) return null;
  if (choice.from >= 0 && metric.isCounter) return null;
  let squares = 0;
  let stated = choice.labels.length === 0;
  const moments = momentsOf(report, metric.kind, choice.process);
  const to = choice.to < 0 ? Infinity : choice.to;
  for (const series of report.series) {
    const m = metricIn(series, metric);
    if (m < 0 || series.base || !isChosen(series, choice.process)) continue;
    if (isGone(series, metric, choice.process, to, moments[moments.length - 1] ?? 0)) continue;
    const index = latest(series, to);
    const half = index < 0 ? 0 : series.snapshots[index]!.halfWidths[m];
    if (half === null || half === undefined) stated = false;
    else squares += half * half;
  }
  if (stated) return Math.sqrt(squares);
  return null;
}
