import type { Series } from "./data";
import { intervalOf } from "./select";

/** Whether nothing was sampled. In lifetimes profiles, ages are sampled even if every block is recorded. */
export function isExactSeries(series: Series): boolean {
  return intervalOf(series) === 1 && (series.records.sampling?.aged_one_in ?? 0) === 0;
}
