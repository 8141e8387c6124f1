// A report's data about locks: both sides by function and by kind, single locks, and who waited for whom.
import { functionTable } from "../../core/functions";
import { labelKeysOf } from "../../core/label_keys";
import { isProcessKey, valuesFor, type Choice, type LabelChoice } from "../../core/select";
import { buildTree } from "../../core/tree_build";
import { hasUnheld } from "../../core/waits";
import type { LockPair, LockRow, Series } from "../../core/data";
import type { App } from "../app_api";
import { stackOf } from "./leaks_view";

export interface SideRow {
  func: number;
  delay: number;
  count: number;
  locks?: number; // the part of the delay that is for locks with a holder
}

/** Returns the chosen labels that apply to one side, and the keys that no sample of it has. */
export function labelsOn(app: App, kind: "block" | "mutex"): { labels: LabelChoice[]; ignored: string[] } {
  const known = labelKeysOf(app.model.report, kind);
  const follows = ({ key }: LabelChoice) => isProcessKey(key) || known.has(key);
  const { labels } = app.state;
  return { labels: labels.filter(follows), ignored: [...new Set(labels.filter((label) => !follows(label)).map(({ key }) => key))] };
}

export interface Side {
  rows: SideRow[];
  delay: number;
  count: number;
  locks: number | null; // the part of the delay that is for locks with a holder; null: all of it
  kinds: [string, number][]; // delay by kind of wait or of lock
  ignored: string[]; // keys of labels that no sample of this side has
}

/** Computes one side: the self value of each function as delay and as number, and the kinds; all from the same stacks. */
export function lockSide(app: App, kind: "block" | "mutex"): Side {
  const { model, state } = app;
  const rows = new Map<number, SideRow>();
  const totals = { delay: 0, count: 0 };
  const { labels, ignored } = labelsOn(app, kind);
  const choice: Choice = { ...model.choice(state), compare: null, weight: null, labels };
  const treeOf = (name: string, labelled = labels) => {
    const { columns } = valuesFor(model.report, { ...choice, labels: labelled, metric: `${kind}/${name}` });
    return buildTree(model.report, columns, { ...model.treeOptions(state), byValue: false });
  };
  // Contended locks come first, as in `holdfast top`; then events, then idle threads.
  const hasIdle = hasUnheld(model.report, kind);
  const treeTo = (mostRank: 0 | 1) => buildTree(model.report, valuesFor(model.report, { ...choice, metric: `${kind}/delay`, mostRank }).columns, { ...model.treeOptions(state), byValue: false });
  const ranked = ([0, 1] as const).map((mostRank) => (hasIdle ? treeTo(mostRank) : null));
  const parts = ranked.map((tree) => new Map(tree === null ? [] : functionTable(tree).map((row) => [row.func, row.self[0]!])));
  for (const [name, member] of [
    ["delay", "delay"],
    ["contentions", "count"],
  ] as const) {
    const tree = treeOf(name);
    totals[member] = tree.total[0]![0]!;
    for (const row of functionTable(tree)) {
      if (row.self[0] === 0) continue;
      const there = rows.get(row.func) ?? { func: row.func, delay: 0, count: 0, locks: parts[0]!.get(row.func) ?? 0 };
      there[member] = row.self[0]!;
      rows.set(row.func, there);
    }
  }
  const key = kind === "block" ? "wait" : "lock";
  const chosen = labels.filter((label) => label.key === key).map(({ text }) => text);
  const others = labels.filter((label) => label.key !== key);
  const kinds = (model.labelValues.get(key) ?? [])
    .filter((text) => chosen.length === 0 || chosen.includes(text))
    .map((text): [string, number] => [text, treeOf("delay", [...others, { key, text }]).total[0]![0]!])
    .filter(([, value]) => value > 0)
    .sort((x, y) => y[1] - x[1]);
  const forLocks = hasIdle ? ranked[0]!.total[0]![0]! : totals.delay;
  const some = ({ func }: SideRow) => parts[1]!.get(func) ?? 0;
  const order = (x: SideRow, y: SideRow) => (x.locks === 0 && y.locks === 0 ? some(y) - some(x) : y.locks! - x.locks!) || y.delay - x.delay;
  return { rows: [...rows.values()].sort(order), ...totals, locks: forLocks === totals.delay ? null : forLocks, kinds, ignored };
}

/** Single locks and pairs: both profiles of a process say the same, so each process counts once, by its newest file. */
export function singleLocks(app: App): { locks: LockOf[]; pairs: PairOf[]; waiters: PairOf[] } {
  const { report } = app.model;
  const newest = new Map<string, Series>();
  const at = (series: Series) => series.snapshots[series.snapshots.length - 1]!.ms;
  for (const series of report.series) {
    if (series.base || series.locks.length === 0) continue;
    if (!app.model.hasProcess(app.state, series.process)) continue;
    const known = newest.get(series.process);
    if (known === undefined || at(series) > at(known)) newest.set(series.process, series);
  }
  const locks: LockOf[] = [];
  const pairs: PairOf[] = [];
  const waiters: PairOf[] = [];
  for (const series of newest.values()) {
    // Skip locks for which only idle threads wait and that nobody has acquired.
    for (const lock of series.locks) if (lock[10] !== 2 || lock[3] > 0) locks.push({ series, lock });
    for (const pair of series.pairs) {
      // A pair without a holder is the sum of a waiter's side.
      const lock = series.locks.find(([number]) => number === pair[0]);
      if (lock !== undefined) (pair[5] >= 0 ? pairs : waiters).push({ series, pair, lockName: lock[1], rank: lock[10] });
    }
  }
  return { pairs, waiters, locks: locks.sort((a, b) => a.lock[10] - b.lock[10] || b.lock[4] + waitingNs(b.lock) - a.lock[4] - waitingNs(a.lock)) };
}

export const handedOver = -2; // nobody: the time from an unlock until the next thread ran
export const notCaptured = -1;

export interface Flow {
  lock: string;
  func: number; // a function, or one of the above
  delay: number;
}

/**
 * The data of the drawing: each waiter's part of the counted delay of a lock, and the part that each holder is charged with. Both sides of a
 * lock add up to its delay: what no holder is charged with is the hand-off (docs/locks.md). Shares are those of the pairs.
 */
export function lockFlows({ locks, pairs, waiters }: ReturnType<typeof singleLocks>, most: number): { locks: Map<string, number>; waits: Flow[]; holds: Flow[] } {
  const some = locks.filter(({ lock }) => lock[4] > 0);
  const held = some.filter(({ lock }) => lock[10] === 0);
  const shown = (held.length > 0 ? held : some).slice(0, most);
  const totals = new Map<string, number>();
  const sides = { waits: new Map<string, Flow>(), holds: new Map<string, Flow>() };
  const add = (side: Map<string, Flow>, lock: string, func: number, delay: number) => {
    if (delay <= 0) return;
    const flow = side.get(`${func} ${lock}`) ?? { lock, func, delay: 0 };
    flow.delay += delay;
    side.set(`${func} ${lock}`, flow);
  };
  const share = (side: Map<string, Flow>, lock: string, of: PairOf[], function_: (pair: LockPair) => number, delay: number) => {
    const sum = of.reduce((all, { pair }) => all + pair[4], 0);
    if (sum <= 0) return add(side, lock, notCaptured, delay);
    for (const { pair } of of) add(side, lock, function_(pair), (pair[4] / sum) * delay);
  };
  for (const { series, lock } of shown) {
    const [number, name, , , delay, , , hold] = lock;
    totals.set(name, (totals.get(name) ?? 0) + delay);
    const isOf = (one: PairOf) => one.series === series && one.pair[0] === number;
    const [own, alone] = [pairs.filter(isOf), waiters.filter(isOf)];
    share(sides.waits, name, alone.length > 0 ? alone : own, (pair) => (pair[6] < 0 ? notCaptured : pair[6]), delay);
    const charged = hold > 0 || own.length === 0 ? Math.min(hold, delay) : delay;
    share(sides.holds, name, own, (pair) => pair[5], charged);
    // Without any hold it is not known who held it.
    add(sides.holds, name, hold > 0 ? handedOver : notCaptured, delay - charged);
  }
  const sorted = (side: Map<string, Flow>) => [...side.values()].sort((a, b) => b.delay - a.delay);
  return { locks: totals, waits: sorted(sides.waits), holds: sorted(sides.holds) };
}

/** waitingNs: how long the waits in progress at the snapshot had lasted. waitingNow: how many they are. */
export const waitingNs = (lock: LockRow): number => lock[20] ?? 0;
export const waitingNow = (lock: LockRow): number => lock[19] ?? 0;

export interface LockOf {
  series: Series;
  lock: LockRow;
}
export interface PairOf {
  series: Series;
  pair: LockPair;
  lockName: string;
  rank: number; // of the lock
}

export interface PairRow {
  waiter: number; // functions; −1: not sampled
  holder: number;
  lock: string;
  rank: number; // 0: it has a holder
  delay: number;
  count: number;
  waitedP99: number; // nanoseconds; −1: unknown
  heldP99: number;
}

/** Returns pairs by function and lock, as `holdfast locks --holder .` prints them. */
export function pairRows(pairs: PairOf[]): PairRow[] {
  const rows = new Map<string, PairRow>();
  for (const { pair: [, , , contentions, delay, holder, waiter, heldP99, waitedP99], lockName, rank } of pairs) {
    const key = `${waiter} ${holder} ${lockName}`;
    const row = rows.get(key) ?? { waiter, holder, lock: lockName, rank, delay: 0, count: 0, waitedP99: -1, heldP99: -1 };
    row.delay += delay;
    row.count += contentions;
    row.waitedP99 = Math.max(row.waitedP99, waitedP99);
    row.heldP99 = Math.max(row.heldP99, heldP99);
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => a.rank - b.rank || b.delay - a.delay); // locks with a holder first
}

/** A counter of the newest mutex profiles. */
export function counted(app: App, key: "delay_ns" | "gap_ns"): number {
  let sum = 0;
  for (const series of app.model.report.series) {
    if (series.kind !== "mutex" || series.base || !app.model.hasProcess(app.state, series.process)) continue;
    sum += series.records.locks?.[key] ?? 0;
  }
  return sum;
}

export interface OtherSide {
  title: string;
  rows: SideRow[];
  kind: "block" | "mutex";
  total: number;
}

/** Returns the other side of a function's waits or holds: from the recorded pairs, else the largest one overall. */
export function otherSide(app: App, func: number): OtherSide | null {
  const { kind } = app.model.metric(app.state);
  if (kind !== "block" && kind !== "mutex") return null;
  const other = kind === "block" ? "mutex" : "block";
  const title = kind === "block" ? "Who held a lock meanwhile" : "Who waited meanwhile";
  const rows = new Map<number, SideRow>();
  let total = 0;
  for (const { pair: [, holder, waiter, contentions, delay, holderFunction, waiterFunction] } of singleLocks(app).pairs) {
    const [mine, own] = kind === "block" ? [waiter, holderFunction] : [holder, waiterFunction];
    if (own < 0 || !stackOf(app, mine).includes(func)) continue;
    const row = rows.get(own) ?? { func: own, delay: 0, count: 0 };
    row.delay += delay;
    row.count += contentions;
    total += delay;
    rows.set(own, row);
  }
  if (rows.size > 0) {
    return { title: `${title}, from sampled pairs${app.model.isPart(app.state) ? " in the whole run" : ""}:`, rows: [...rows.values()].sort((a, b) => b.delay - a.delay).slice(0, 8), kind: other, total };
  }
  if (!app.model.report.series.some((series) => series.kind === other)) return null;
  const all = lockSide(app, other);
  return { title: `${title}, over all locks:`, rows: all.rows.slice(0, 6), kind: other, total: all.delay };
}
