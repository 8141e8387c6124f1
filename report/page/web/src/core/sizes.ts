// Sizes of the blocks that the stacks through some nodes allocated: the histogram of `holdfast top --by size`.
import { combine, type Report } from "./data";
import { findMetric, metricIn } from "./metrics";
import { coefficientsOf, isChosen, labelFilter, momentsOf, passes, type Choice } from "./select";

/** Blocks of more than half of `most` bytes, up to `most`. */
export interface SizeBin {
  most: number;
  amount: number;
}

/**
 * Returns rows in powers of two, the smallest first, without gaps. They add up to the total of `inside`. Empty: samples have no
 * sizes.
 */
export function sizeBins(report: Report, choice: Choice, inside: (node: number) => boolean): SizeBin[] {
  const metric = findMetric(report, choice.metric);
  if (metric === undefined) return [];
  const exponents = report.labelSets.map((set) => {
    const size = set.find(({ key, unit }) => key === "bytes" && unit === "bytes")?.number ?? 0;
    return size > 0 ? Math.ceil(Math.log2(size)) : -1;
  });
  const allowed = labelFilter(report, choice.labels);
  const moments = momentsOf(report, metric.kind, choice.process);
  const sums = new Map<number, number>();
  for (const series of report.series) {
    const m = metricIn(series, metric);
    if (m < 0 || series.base || !isChosen(series, choice.process) || !passes(report, series, choice.labels)) continue;
    const values = combine(series, m, coefficientsOf(series, report, metric, choice, moments));
    for (let row = 0; row < values.length; ++row) {
      const exponent = exponents[series.labels[row]!]!;
      if (values[row] === 0 || exponent < 0 || allowed[series.labels[row]!] !== 1 || !inside(series.node[row]!)) continue;
      sums.set(exponent, (sums.get(exponent) ?? 0) + values[row]!);
    }
  }
  if (sums.size === 0) return [];
  const first = Math.min(...sums.keys());
  return Array.from({ length: Math.max(...sums.keys()) - first + 1 }, (_, i) => ({ most: 2 ** (first + i), amount: sums.get(first + i) ?? 0 }));
}
