import type { Series } from "./data";
import { intervalOf } from "./select";

/** Whether nothing was left to chance: of lifetimes the ages of few are taken also where every block is recorded. */
export function isExactSeries(series: Series): boolean {
  return intervalOf(series) === 1 && !series.comments.some((comment) => comment.startsWith("ages known: ") && comment.includes("of one "));
}
