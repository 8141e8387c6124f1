// Locks: who waited (block profile) against who held (mutex profile), by function and by kind of lock.
import { formatPercent, formatValue, grouped } from "../core/units";
import { valuesFor } from "../core/select";
import { functionTable } from "../core/functions";
import { buildTree } from "../core/tree_build";
import type { LockPair, LockRow, Series } from "../core/data";
import { nameOf, type App } from "./app_api";
import { stackOf } from "./leaks_view";
import { Bar, FunctionName } from "./tables";

export interface SideRow {
  func: number;
  delay: number;
  count: number;
}

/** One side: self of each function in delay and in number. */
export function lockSide(app: App, kind: "block" | "mutex"): { rows: SideRow[]; delay: number; count: number } {
  const { model, state } = app;
  const rows = new Map<number, SideRow>();
  const totals = { delay: 0, count: 0 };
  const choice = { ...model.choice(state), compare: null, weight: null };
  for (const [name, member] of [
    ["delay", "delay"],
    ["contentions", "count"],
  ] as const) {
    const { columns } = valuesFor(model.report, { ...choice, metric: `${kind}/${name}` });
    const tree = buildTree(model.report, columns, { ...model.treeOptions(state), byValue: false });
    totals[member] = tree.total[0]![0]!;
    for (const row of functionTable(tree)) {
      if (row.self[0] === 0) continue;
      const there = rows.get(row.func) ?? { func: row.func, delay: 0, count: 0 };
      there[member] = row.self[0]!;
      rows.set(row.func, there);
    }
  }
  return { rows: [...rows.values()].sort((a, b) => b.delay - a.delay), ...totals };
}

/** Delay by the value of one label: wait or lock. */
function byKind(app: App, kind: "block" | "mutex", key: string): [string, number][] {
  const { model, state } = app;
  const choice = { ...model.choice(state), compare: null, weight: null, metric: `${kind}/delay` };
  return (model.labelValues.get(key) ?? [])
    .map((text): [string, number] => [text, valuesFor(model.report, { ...choice, labels: [...state.labels, { key, text }] }).total])
    .filter(([, value]) => value > 0)
    .sort((a, b) => b[1] - a[1]);
}

export const heldKinds = /^(mutex|rwlock|spin|futex)/; // what somebody holds, unlike conditions, semaphores, joins

/** Single locks and pairs: both profiles of a process say the same, so each process counts once, by its newest file. */
function singleLocks(app: App): { locks: LockOf[]; pairs: PairOf[] } {
  const { report } = app.model;
  const newest = new Map<string, Series>();
  const at = (series: Series) => series.snapshots[series.snapshots.length - 1]!.ms;
  for (const series of report.series) {
    if (series.base || series.locks.length === 0) continue;
    if (app.state.process !== "" && series.process !== app.state.process) continue;
    const known = newest.get(series.process);
    if (known === undefined || at(series) > at(known)) newest.set(series.process, series);
  }
  const locks: LockOf[] = [];
  const pairs: PairOf[] = [];
  for (const series of newest.values()) {
    for (const lock of series.locks) locks.push({ series, lock });
    for (const pair of series.pairs) {
      // Without a holder a pair is the sum of a waiter's side, which stands in the table of that side.
      const lock = series.locks.find(([number]) => number === pair[0]);
      if (pair[5] >= 0 && lock !== undefined) pairs.push({ series, pair, lockName: lock[1] });
    }
  }
  return { locks: locks.sort((a, b) => b.lock[4] - a.lock[4]), pairs };
}

interface LockOf {
  series: Series;
  lock: LockRow;
}
interface PairOf {
  series: Series;
  pair: LockPair;
  lockName: string;
}

interface WhomRow {
  waiter: number; // functions; −1: not captured
  holder: number;
  lock: string;
  delay: number;
  count: number;
}

/** Pairs by their functions and lock, as `holdfast locks --holder .` prints them. */
export function whomRows(pairs: PairOf[]): WhomRow[] {
  const rows = new Map<string, WhomRow>();
  for (const { pair: [, , , contentions, delay, holder, waiter], lockName } of pairs) {
    const key = `${waiter} ${holder} ${lockName}`;
    const row = rows.get(key) ?? { waiter, holder, lock: lockName, delay: 0, count: 0 };
    row.delay += delay;
    row.count += contentions;
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => b.delay - a.delay);
}

function SingleLocks({ app }: { app: App }) {
  const { locks, pairs } = singleLocks(app);
  if (locks.length === 0) return null;
  const whom = whomRows(pairs);
  const name = (func: number, kind: "block" | "mutex") =>
    func < 0 ? (
      <span class="muted">not captured</span>
    ) : (
      <FunctionName app={app} func={func} onClick={() => app.set({ metric: `${kind}/delay`, selected: func, view: "sandwich" })} />
    );
  return (
    <>
      {whom.length > 0 && (
        <section aria-label="Who waited for whom">
          <h2>Who waited for whom</h2>
          <table class="data" data-testid="lock-pairs">
            <thead>
              <tr>
                <th scope="col" class="num">
                  Delay
                </th>
                <th scope="col" class="num">
                  Number
                </th>
                <th scope="col">Waited</th>
                <th scope="col">Held</th>
                <th scope="col">Lock</th>
              </tr>
            </thead>
            <tbody>
              {whom.slice(0, 30).map((row, i) => (
                <tr key={i}>
                  <td class="num">{formatValue(Math.trunc(row.delay), "nanoseconds")}</td>
                  <td class="num muted">{grouped(row.count)}</td>
                  <td class="half">{name(row.waiter, "block")}</td>
                  <td class="half">{name(row.holder, "mutex")}</td>
                  <td class="half muted">{row.lock}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      <section aria-label="Hottest locks">
        <h2>Hottest locks</h2>
        <table class="data" data-testid="lock-list">
          <thead>
            <tr>
              <th scope="col" class="num">
                Delay
              </th>
              <th scope="col" class="num">
                Waits
              </th>
              <th scope="col" class="num">
                Mean
              </th>
              <th scope="col" class="num">
                Longest
              </th>
              <th scope="col" class="num">
                Mean hold
              </th>
              <th scope="col">Kind</th>
              <th scope="col">Top holder</th>
              <th scope="col">Top waiter</th>
              <th scope="col">Lock</th>
            </tr>
          </thead>
          <tbody>
            {locks.slice(0, 30).map(({ series, lock: [number, title, kind, contentions, delay, longest, holds, hold, holder, waiter] }) => (
              <tr key={`${series.process} ${number}`}>
                <td class="num">{formatValue(delay, "nanoseconds")}</td>
                <td class="num">{grouped(contentions)}</td>
                <td class="num muted">{contentions > 0 ? formatValue(Math.trunc(delay / contentions), "nanoseconds") : ""}</td>
                <td class="num muted">{formatValue(longest, "nanoseconds")}</td>
                <td class="num muted">{holds > 0 ? formatValue(hold / holds, "nanoseconds") : ""}</td>
                <td>{kind}</td>
                <td class="half">{holder < 0 ? "" : name(holder, "mutex")}</td>
                <td class="half">{waiter < 0 ? "" : name(waiter, "block")}</td>
                <td class="name">
                  <span class="fn-name">{title}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

/** A number that the newest mutex profiles state beside their samples. */
function stated(app: App, key: string): number {
  let sum = 0;
  for (const series of app.model.report.series) {
    if (series.kind !== "mutex" || series.base || (app.state.process !== "" && series.process !== app.state.process)) continue;
    const comment = series.comments.find((text) => text.startsWith(`${key}: `));
    if (comment !== undefined) sum += Number.parseFloat(comment.slice(key.length + 2)) || 0;
  }
  return sum;
}

export function LocksView({ app }: { app: App }) {
  const { state } = app;
  const { report } = app.model;
  const has = (kind: string) => report.series.some((series) => series.kind === kind);
  if (!has("block") && !has("mutex")) {
    return (
      <div class="empty" role="status">
        <p>
          <b>No lock profile in this report.</b>
        </p>
        <p>
          Nobody waited long enough for a lock, or only heap profiles were given. Add <code>*.block.pb.gz</code> and{" "}
          <code>*.mutex.pb.gz</code>, or give the whole folder.
        </p>
      </div>
    );
  }
  const waiters = lockSide(app, "block");
  const holders = lockSide(app, "mutex");
  const matches = app.model.matches(state.search);
  const found = (row: SideRow) => matches === null || matches[row.func] === 1;
  const side = (title: string, kind: "block" | "mutex", data: ReturnType<typeof lockSide>, key: string, hint: string) => (
    <section aria-label={title}>
      <h2>{title}</h2>
      {!has(kind) ? (
        <p class="muted">{hint}</p>
      ) : (
        <>
          <p>
            <b class="big">{formatValue(data.delay, "nanoseconds")}</b> in {grouped(data.count)} {kind === "block" ? "waits" : "holds"}
            {data.count > 0 && <>, {formatValue(data.delay / data.count, "nanoseconds")} each</>}
          </p>
          <p class="kinds">
            {byKind(app, kind, key).map(([text, value]) => (
              <span key={text}>
                {text} <b>{formatValue(value, "nanoseconds")}</b> {formatPercent(value, data.delay)}
              </span>
            ))}
          </p>
          <table class="data" data-testid={`locks-${kind}`}>
            <thead>
              <tr>
                <th scope="col" class="num">
                  Delay
                </th>
                <th scope="col" class="num">
                  %
                </th>
                <th scope="col" class="num">
                  Number
                </th>
                <th scope="col" class="num">
                  Mean
                </th>
                <th scope="col">Function</th>
              </tr>
            </thead>
            <tbody>
              {data.rows.filter(found).slice(0, 50).map((row) => (
                <tr key={row.func} data-fn={nameOf(app, row.func)}>
                  <td class="num">
                    {formatValue(row.delay, "nanoseconds")}
                    <Bar part={row.delay / (data.rows[0]!.delay || 1)} />
                  </td>
                  <td class="num muted">{formatPercent(row.delay, data.delay)}</td>
                  <td class="num">{grouped(row.count)}</td>
                  <td class="num muted">{row.count > 0 ? formatValue(row.delay / row.count, "nanoseconds") : ""}</td>
                  <td class="name">
                    <FunctionName
                      app={app}
                      func={row.func}
                      onClick={() => app.set({ metric: `${kind}/delay`, selected: row.func, view: "sandwich" })}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
  const held = byKind(app, "block", "wait").reduce((sum, [kind, value]) => (heldKinds.test(kind) ? sum + value : sum), 0);
  // The whole run was counted exactly, holders and gaps (docs/locks.md); of a part of it there is only the estimate.
  const counted = state.labels.length === 0 && state.chips.length === 0 && state.from < 0 && state.to < 0;
  const gap = counted ? stated(app, "gap_ns") : 0;
  const blamed = gap > 0 ? stated(app, "delay_ns") || holders.delay : holders.delay;
  const whole = gap > 0 ? blamed + gap : held;
  const both = has("block") && has("mutex") && waiters.delay > 0 && whole > 0;
  return (
    <section class="view scroll" aria-label="Locks" tabIndex={0}>
      {both && (
        <p class="lead">
          {gap > 0 ? "As counted, threads waited " : "Threads waited "}
          {formatValue(whole, "nanoseconds")} for locks: holders account for <b>{formatPercent(blamed, whole)}</b>
          {gap > 0 && (
            <>
              , the delay from an unlock until the next thread ran for <b>{formatPercent(gap, whole)}</b>
            </>
          )}
          .{waiters.delay > 1.01 * held && <> Conditions, joins and the like are waits for work: nobody holds them.</>}
        </p>
      )}
      <div class="two">
        {side("Who waited", "block", waiters, "wait", "No block profile was given: the waiters' side is not known.")}
        {side("Who held", "mutex", holders, "lock", "No mutex profile was given: the holders' side is not known.")}
      </div>
      <SingleLocks app={app} />
    </section>
  );
}

export interface OtherSide {
  title: string;
  rows: SideRow[];
  kind: "block" | "mutex";
  total: number;
}

/** The other side of a function's waits or holds: from the pairs that were seen, else the largest of all. */
export function otherSide(app: App, func: number): OtherSide | null {
  const { kind } = app.model.metric(app.state);
  if (kind !== "block" && kind !== "mutex") return null;
  const other = kind === "block" ? "mutex" : "block";
  const title = kind === "block" ? "Who held while others waited" : "Who waited meanwhile";
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
    return { title: `${title}, as pairs were seen:`, rows: [...rows.values()].sort((a, b) => b.delay - a.delay).slice(0, 8), kind: other, total };
  }
  if (!app.model.report.series.some((series) => series.kind === other)) return null;
  const all = lockSide(app, other);
  return { title: `${title}, over all locks:`, rows: all.rows.slice(0, 6), kind: other, total: all.delay };
}
