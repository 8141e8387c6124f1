// Source lines of one function, with self and total. A line that occurs twice in a stack counts once.
import type { Report } from "./data";

export interface LineRow {
  line: number;
  self: number;
  total: number;
}

/** `column`: values over nodes. `shown`: −1 for nodes that are filtered out. */
export function linesOf(report: Report, func: number, column: Float64Array, shown: Int32Array): LineRow[] {
  const { parent, frame, frameFunction, frameLine } = report;
  const nodes = parent.length;
  const total = new Float64Array(nodes);
  const end = new Int32Array(nodes);
  for (let i = nodes - 1; i > 0; --i) {
    if (end[i] === 0) end[i] = i + 1;
    if (end[i]! > end[parent[i]!]!) end[parent[i]!] = end[i]!;
    if (shown[i]! >= 0) total[i]! += column[i]!;
    total[parent[i]!]! += total[i]!;
  }
  const rows = new Map<number, LineRow>();
  const covered = new Map<number, number>();
  for (let i = 1; i < nodes; ++i) {
    const f = frame[i]!;
    if (frameFunction[f] !== func || total[i] === 0) continue;
    const line = frameLine[f]!;
    let row = rows.get(line);
    if (row === undefined) rows.set(line, (row = { line, self: 0, total: 0 }));
    if (shown[i]! >= 0) row.self += column[i]!;
    if ((covered.get(line) ?? 0) <= i) {
      covered.set(line, end[i]!);
      row.total += total[i]!;
    }
  }
  return [...rows.values()].sort((a, b) => a.line - b.line);
}
