// Splits the waits shown into waits for locks, for events, and idle ones (report/analysis/locks/wait_rank.h). "biggest" names the part
// that it refers to, and tables are sorted in this order, as in `holdfast top`.
import type { Report } from "./data";
import { functionTable, type FunctionRow } from "./functions";
import type { FlameTree } from "./tree";

export interface Waits {
  locks: number;
  events: number;
  idle: number;
  locksOf: Map<number, FunctionRow>; // by function
  someOf: Map<number, FunctionRow>; // of locks and events
}

/** Whether some waits of a kind of profile are for something without a holder. */
export const hasUnheld = (report: Report, kind: string): boolean => report.series.some((series) => series.kind === kind && series.rank.some((rank) => rank > 0));

/** Returns null if all waits are for locks. */
export function waitsOf(all: FlameTree, locks: FlameTree, some: FlameTree): Waits | null {
  const total = (tree: FlameTree): number => tree.total[0]![0]!;
  if (total(locks) === total(all)) return null;
  const rows = (tree: FlameTree) => new Map(functionTable(tree).map((row) => [row.func, row]));
  return { locks: total(locks), events: total(some) - total(locks), idle: total(all) - total(some), locksOf: rows(locks), someOf: rows(some) };
}

/** Sorts contended locks first, then events, then idle threads. Returns 0 to keep the order. */
export function byRank(waits: Waits | null, what: "self" | "total"): (a: FunctionRow, b: FunctionRow) => number {
  if (waits === null) return () => 0;
  const of = (rows: Map<number, FunctionRow>, { func }: FunctionRow) => Math.abs(rows.get(func)?.[what][0] ?? 0);
  return (a, b) => {
    const [x, y] = [of(waits.locksOf, a), of(waits.locksOf, b)];
    return x === 0 && y === 0 ? of(waits.someOf, b) - of(waits.someOf, a) : y - x;
  };
}
