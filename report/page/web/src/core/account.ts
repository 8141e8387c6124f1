// The resident memory of each process by part, for each snapshot with an account. For the view "Memory".
import type { AccountLine, Report } from "./data";
import { isChosen } from "./select";

export interface Account {
  process: string;
  program: string;
  pid: string;
  moments: number[]; // of the snapshots that have an account, in order of time
  lines: string[]; // names, in the order of the accounts; lines that are always zero are omitted
  course: number[][]; // by line, by moment; bytes
  shown: { ms: number; lines: AccountLine[] }; // at the end of the range
  before: { ms: number; lines: AccountLine[] } | null; // at its start, if that is a different moment
}

export const totalOf = (lines: AccountLine[]): number => lines.reduce((sum, [, bytes]) => sum + bytes, 0);

/** Returns the accounts of the chosen processes, the largest first. `range`: milliseconds; −1: open. */
export function accountsOf(report: Report, process: string, range: { from: number; to: number }): Account[] {
  const accounts: Account[] = [];
  for (const series of report.series) {
    if (series.base || series.kind !== "heap" || !isChosen(series, process)) continue;
    const all = series.snapshots.flatMap(({ ms, account }) => (account === undefined ? [] : [{ ms, lines: account }]));
    const until = all.filter(({ ms }) => range.to < 0 || ms <= range.to);
    const shown = until[until.length - 1];
    if (shown === undefined) continue;
    // The last account before the range, as in other views; else the first.
    const before = until.filter(({ ms }) => range.from >= 0 && ms <= range.from).pop() ?? until[0]!;
    const lines = [...new Set(all.flatMap((one) => one.lines.flatMap(([what, bytes]) => (bytes > 0 ? [what] : []))))];
    accounts.push({
      process: series.process,
      program: series.program,
      pid: series.pid,
      moments: all.map(({ ms }) => ms),
      lines,
      course: lines.map((what) => all.map((one) => bytesOf(one.lines, what))),
      shown,
      before: before === shown ? null : before,
    });
  }
  return accounts.sort((a, b) => totalOf(b.shown.lines) - totalOf(a.shown.lines));
}

export function bytesOf(lines: AccountLine[], what: string): number {
  return lines.find(([name]) => name === what)?.[1] ?? 0;
}
