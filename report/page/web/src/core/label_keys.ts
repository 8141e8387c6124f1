// The labels that samples of a kind have: filters on other labels do not apply to that kind.
import type { Report } from "./data";

const known = new WeakMap<Report, Map<string, Set<string>>>();

export function labelKeysOf(report: Report, kind: string): Set<string> {
  const ofReport = known.get(report) ?? new Map<string, Set<string>>();
  known.set(report, ofReport);
  const before = ofReport.get(kind);
  if (before !== undefined) return before;
  const sets = new Set<number>();
  for (const series of report.series) if (series.kind === kind && !series.base) for (const set of series.labels) sets.add(set);
  const keys = new Set([...sets].flatMap((set) => report.labelSets[set]!.map(({ key }) => key)));
  ofReport.set(kind, keys);
  return keys;
}
