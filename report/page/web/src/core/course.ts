// The curves over the snapshots: the values of all stacks through one function at each moment, and the resident memory of the
// processes.
import { addColumn, type Report } from "./data";
import type { Metric } from "./metrics";
import { isChosen, isGone, labelFilter, passes, type LabelChoice } from "./select";

/** Returns 1 for each node of the report where a stack through the function ends. */
export function nodesThrough(report: Report, func: number): Uint8Array {
  const { parent, frame, frameFunction } = report;
  const through = new Uint8Array(parent.length);
  for (let i = 1; i < through.length; ++i) if (frameFunction[frame[i]!] === func || through[parent[i]!] === 1) through[i] = 1;
  return through;
}

/** Sums the nodes in `through` at each moment. Each process counts with its latest snapshot. One pass over the columns. */
export function courseOf(report: Report, metric: Metric, choice: { process: string; labels: LabelChoice[] }, moments: number[], through: Uint8Array): number[] {
  const course = new Array<number>(moments.length).fill(0);
  const allowed = labelFilter(report, choice.labels);
  for (const series of report.series) {
    const m = series.kind === metric.kind && !series.base ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
    if (m < 0 || !isChosen(series, choice.process) || !passes(report, series, choice.labels)) continue;
    const current = new Float64Array(series.rows);
    let next = 0; // index of the next snapshot
    let sum = 0;
    moments.forEach((ms, i) => {
      if (isGone(series, metric, choice.process, ms, moments[moments.length - 1]!)) return;
      const before = next;
      for (; next < series.snapshots.length && series.snapshots[next]!.ms <= ms; ++next) {
        addColumn(series.columns[next * series.metrics.length + m]!, current);
      }
      if (next > before) {
        sum = 0;
        for (let row = 0; row < current.length; ++row) {
          if (through[series.node[row]!] === 1 && allowed[series.labels[row]!] === 1) sum += current[row]!;
        }
      }
      course[i]! += sum;
    });
  }
  return course;
}

/** The innermost function of each node's stack that is not plumbing; −1: there is none. */
function ownersOf({ parent, frame, frameFunction, framePlumbing }: Report): Int32Array {
  const owners = new Int32Array(parent.length).fill(-1);
  for (let i = 1; i < owners.length; ++i) owners[i] = framePlumbing[frame[i]!] === 1 ? owners[parent[i]!]! : frameFunction[frame[i]!]!;
  return owners;
}

export interface OwnerCourse {
  func: number; // −1: all others together
  values: number[];
}

/** The course of each of the functions that hold most, and of the others together: what a total is made of, over the moments. */
export function courseByOwner(report: Report, metric: Metric, choice: { process: string; labels: LabelChoice[] }, moments: number[], most: number): OwnerCourse[] {
  const owners = ownersOf(report);
  const allowed = labelFilter(report, choice.labels);
  const courses = new Map<number, Float64Array>();
  for (const series of report.series) {
    const m = series.kind === metric.kind && !series.base ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
    if (m < 0 || !isChosen(series, choice.process) || !passes(report, series, choice.labels)) continue;
    const current = new Float64Array(series.rows);
    let sums = new Map<number, number>();
    let next = 0; // snapshot
    moments.forEach((ms, i) => {
      const before = next;
      for (; next < series.snapshots.length && series.snapshots[next]!.ms <= ms; ++next) addColumn(series.columns[next * series.metrics.length + m]!, current);
      if (next > before) {
        sums = new Map();
        for (let row = 0; row < current.length; ++row) {
          if (current[row] === 0 || allowed[series.labels[row]!] !== 1) continue;
          const owner = owners[series.node[row]!]!;
          sums.set(owner, (sums.get(owner) ?? 0) + current[row]!);
        }
      }
      for (const [owner, sum] of sums) {
        let course = courses.get(owner);
        if (course === undefined) courses.set(owner, (course = new Float64Array(moments.length)));
        course[i]! += sum;
      }
    });
  }
  const highest = (course: Float64Array) => course.reduce((max, value) => Math.max(max, value), 0);
  const sorted = [...courses].sort((a, b) => highest(b[1]) - highest(a[1]));
  const own = sorted.filter(([func]) => func >= 0).slice(0, most);
  const others = new Float64Array(moments.length);
  for (const [func, course] of sorted) if (!own.some(([one]) => one === func)) course.forEach((value, i) => (others[i]! += value));
  return [...own, ...(others.some((value) => value > 0) ? [[-1, others] as const] : [])].map(([func, values]) => ({ func, values: [...values] }));
}

/** Resident memory of the chosen processes at each moment, as the kernel counted it; NaN where one of them does not say it. Null: none does. */
export function residentOver(report: Report, metric: Metric, process: string, moments: number[]): number[] | null {
  const course = new Array<number>(moments.length).fill(0);
  let any = false;
  for (const series of report.series) {
    if (series.kind !== metric.kind || series.base || !isChosen(series, process)) continue;
    let next = 0; // index of the next snapshot
    moments.forEach((ms, i) => {
      while (next < series.snapshots.length && series.snapshots[next]!.ms <= ms) ++next;
      if (next === 0 || isGone(series, metric, process, ms, moments[moments.length - 1]!)) return; // it had not begun, or has ended
      const { resident } = series.snapshots[next - 1]!;
      any ||= resident !== undefined;
      course[i]! += resident ?? NaN;
    });
  }
  return any ? course : null;
}
