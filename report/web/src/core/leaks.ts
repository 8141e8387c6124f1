// Leaks: stacks ranked by the growth of what they hold, over the snapshots.
//
// The slope of each stack is Theil–Sen's: the median of the slopes between all pairs of snapshots, which a warm-up or one
// spike does not move. Its 95 % interval is Sen's, from the ranks of the pairwise slopes. A stack is "growing" when even
// the lower end is above zero and growth goes on in the second half; else it is a plateau, a one-off or a saw-tooth.
import { addColumn, type Report, type Series } from "./data";
import { isChosen } from "./select";

export type Shape = "growing" | "plateau" | "saw-tooth" | "one-off" | "shrinking";

export interface Leak {
  node: number; // node of the report: the whole stack
  process: string;
  slope: number; // a second
  low: number;
  high: number;
  objectSlope: number;
  first: number;
  last: number;
  shape: Shape;
  points: number[];
}

/** Median of pairwise slopes and its interval. `x` ascending. */
export function theilSen(x: number[], y: number[]): { slope: number; low: number; high: number } {
  const slopes: number[] = [];
  for (let i = 0; i < x.length; ++i) {
    for (let j = i + 1; j < x.length; ++j) if (x[j]! > x[i]!) slopes.push((y[j]! - y[i]!) / (x[j]! - x[i]!));
  }
  if (slopes.length === 0) return { slope: 0, low: 0, high: 0 };
  slopes.sort((a, b) => a - b);
  const n = x.length;
  const half = (1.96 * Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18)) / 2;
  const middle = (slopes.length - 1) / 2;
  const at = (place: number) => slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(place)))]!;
  return {
    slope: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    low: at(Math.floor(middle - half)),
    high: at(Math.ceil(middle + half)),
  };
}

export function shapeOf(points: number[], low: number, high: number): Shape {
  const n = points.length;
  const last = points[n - 1]!;
  const most = Math.max(...points);
  const least = Math.min(...points);
  const span = most - least;
  if (span <= 0.02 * most) return "plateau";
  let down = 0;
  for (let i = 1; i < n; ++i) down += Math.max(0, points[i - 1]! - points[i]!);
  if (down > 0.5 * span && low <= 0) return "saw-tooth";
  // One step and nothing else: most of the rise in one interval.
  let step = 0;
  for (let i = 1; i < n; ++i) step = Math.max(step, points[i]! - points[i - 1]!);
  const third = points[Math.floor((n * 2) / 3)]!;
  if (low > 0 && last - third > 0.1 * span) return "growing";
  if (high < 0) return "shrinking";
  return step > 0.8 * span ? "one-off" : "plateau";
}

/** Every stack that holds something at the end, the surest growth first. At least three snapshots are needed. */
export function findLeaks(report: Report, process: string, limit: number): Leak[] {
  const leaks: Leak[] = [];
  for (const series of report.series) {
    if (series.base || !isChosen(series, process) || series.snapshots.length < 3) continue;
    const space = series.metrics.findIndex(([name]) => name === "inuse_space");
    if (space < 0) continue;
    const objects = series.metrics.findIndex(([name]) => name === "inuse_objects");
    const seconds = series.snapshots.map((snapshot) => snapshot.ms / 1000);
    const bytes = byNode(series, space);
    const counts = objects < 0 ? null : byNode(series, objects, bytes);
    for (const [node, points] of bytes) {
      const { slope, low, high } = theilSen(seconds, points);
      leaks.push({
        node,
        process: series.process,
        slope,
        low,
        high,
        objectSlope: counts === null ? 0 : theilSen(seconds, counts.get(node)!).slope,
        first: points[0]!,
        last: points[points.length - 1]!,
        shape: shapeOf(points, low, high),
        points,
      });
    }
  }
  const isGrowing = (leak: Leak) => (leak.shape === "growing" ? 1 : 0);
  leaks.sort((a, b) => isGrowing(b) - isGrowing(a) || (isGrowing(a) === 1 ? b.low - a.low : b.slope - a.slope));
  return leaks.slice(0, limit);
}

/** In use of each stack (all sizes together) at each snapshot; the 2,000 largest at the end, to bound the work. */
function byNode(series: Series, metric: number, like?: Map<number, number[]>): Map<number, number[]> {
  const current = new Float64Array(series.rows);
  const all: Float64Array[] = [];
  const index = new Map<number, number>();
  const slot = Int32Array.from(series.node, (node) => {
    const known = index.get(node);
    if (known !== undefined) return known;
    index.set(node, index.size);
    return index.size - 1;
  });
  for (let i = 0; i < series.snapshots.length; ++i) {
    addColumn(series.columns[i * series.metrics.length + metric]!, current);
    const sums = new Float64Array(index.size);
    for (let row = 0; row < series.rows; ++row) sums[slot[row]!]! += current[row]!;
    all.push(sums);
  }
  const last = all[all.length - 1]!;
  const largest =
    like !== undefined
      ? [...index].filter(([node]) => like.has(node))
      : [...index].sort((a, b) => last[b[1]]! - last[a[1]]!).slice(0, 2000);
  return new Map(largest.map(([node, at]) => [node, all.map((sums) => sums[at]!)]));
}
