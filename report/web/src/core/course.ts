// The curves over the snapshots: the values of all stacks through one function at each moment, and the resident memory of the
// processes.
import { addColumn, type Report } from "./data";
import type { Metric } from "./metrics";
import { isChosen, labelFilter, passes, type LabelChoice } from "./select";

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

/**
 * Returns the resident memory of the chosen processes at each moment, as counted by the kernel. NaN: one of them does not state
 * it. Null: none does.
 */
export function residentOver(report: Report, metric: Metric, process: string, moments: number[]): number[] | null {
  const course = new Array<number>(moments.length).fill(0);
  let any = false;
  for (const series of report.series) {
    if (series.kind !== metric.kind || series.base || !isChosen(series, process)) continue;
    let next = 0; // index of the next snapshot
    moments.forEach((ms, i) => {
      while (next < series.snapshots.length && series.snapshots[next]!.ms <= ms) ++next;
      if (next === 0) return; // the process had not begun
      const { resident } = series.snapshots[next - 1]!;
      any ||= resident !== undefined;
      course[i]! += resident ?? NaN;
    });
  }
  return any ? course : null;
}
