// What is drawn beside a total over the snapshots: what all stacks through one function had at each moment, and how much memory
// of the processes was resident.
import { addColumn, type Report } from "./data";
import type { Metric } from "./metrics";
import { isChosen, labelFilter, passes, type LabelChoice } from "./select";

/** By node of the report: 1 where the stack that ends there goes through the function. */
export function nodesThrough(report: Report, func: number): Uint8Array {
  const { parent, frame, frameFunction } = report;
  const through = new Uint8Array(parent.length);
  for (let i = 1; i < through.length; ++i) if (frameFunction[frame[i]!] === func || through[parent[i]!] === 1) through[i] = 1;
  return through;
}

/** Sums over the nodes in `through`, at each moment; a process counts with its latest snapshot. One pass over the columns. */
export function courseOf(report: Report, metric: Metric, choice: { process: string; labels: LabelChoice[] }, moments: number[], through: Uint8Array): number[] {
  const course = new Array<number>(moments.length).fill(0);
  const allowed = labelFilter(report, choice.labels);
  for (const series of report.series) {
    const m = series.kind === metric.kind && !series.base ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
    if (m < 0 || !isChosen(series, choice.process) || !passes(report, series, choice.labels)) continue;
    const current = new Float64Array(series.rows);
    let next = 0; // snapshot
    let sum = 0;
    moments.forEach((ms, i) => {
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

/** Resident memory of the chosen processes at each moment, as the kernel counted it; NaN where one of them does not say it. Null: none does. */
export function residentOver(report: Report, metric: Metric, process: string, moments: number[]): number[] | null {
  const course = new Array<number>(moments.length).fill(0);
  let any = false;
  for (const series of report.series) {
    if (series.kind !== metric.kind || series.base || !isChosen(series, process)) continue;
    let next = 0; // snapshot
    moments.forEach((ms, i) => {
      while (next < series.snapshots.length && series.snapshots[next]!.ms <= ms) ++next;
      if (next === 0) return; // it had not begun
      const { resident } = series.snapshots[next - 1]!;
      any ||= resident !== undefined;
      course[i]! += resident ?? NaN;
    });
  }
  return any ? course : null;
}
