// Locks: who waited (block profile) against who held (mutex profile), by function and by kind of lock.
import { formatPercent, formatValue, grouped } from "../core/units";
import { valuesFor } from "../core/select";
import { buildTree, functionTable } from "../core/tree";
import type { Series } from "../core/data";
import { nameOf, type App } from "./app_api";
import { ownOf, stackOf } from "./leaks_view";
import { Bar, FunctionName } from "./tables";

export interface LockRow {
  func: number;
  delay: number;
  count: number;
}

/** One side: self of each function in delay and in number. */
export function lockSide(app: App, kind: "block" | "mutex"): { rows: LockRow[]; delay: number; count: number } {
  const { model, state } = app;
  const rows = new Map<number, LockRow>();
  const totals = { delay: 0, count: 0 };
  const choice = { ...model.choice(state), compare: null, weight: null };
  for (const [name, member] of [
    ["delay", "delay"],
    ["contentions", "count"],
  ] as const) {
    const { columns } = valuesFor(model.report, { ...choice, metric: `${kind}/${name}` });
    const tree = buildTree(model.report, columns, { filters: [], fold: null, byValue: false });
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

const heldKinds = /^(mutex|rwlock|spin|futex)/; // what somebody holds, unlike conditions, semaphores, joins

/** Single locks and pairs: both profiles of a process say the same, so each process counts once. */
function singleLocks(app: App): { locks: Series["locks"]; pairs: Series["pairs"] } {
  const { report } = app.model;
  const seen = new Set<string>();
  const locks: Series["locks"] = [];
  const pairs: Series["pairs"] = [];
  report.series.forEach((series, i) => {
    if (series.base || series.locks.length === 0 || seen.has(series.process)) return;
    if (app.state.process !== "" && series.process !== app.state.process) return;
    seen.add(series.process);
    for (const [number, ...rest] of series.locks) locks.push([i * 1000 + number, ...rest]);
    // With one side alone a pair is the sum of that side, which stands in the tables of the sides.
    for (const [lock, holder, waiter, ...rest] of series.pairs) {
      if (holder !== 0 && waiter !== 0) pairs.push([i * 1000 + lock, holder, waiter, ...rest]);
    }
  });
  return { locks: locks.sort((a, b) => b[4] - a[4]), pairs: pairs.sort((a, b) => b[4] - a[4]) };
}

function SingleLocks({ app }: { app: App }) {
  const { locks, pairs } = singleLocks(app);
  if (locks.length === 0) return null;
  const names = new Map(locks.map((lock) => [lock[0], lock[1]]));
  const stack = (node: number, kind: "block" | "mutex") => {
    const functions = stackOf(app, node);
    const own = ownOf(app, functions);
    return <FunctionName app={app} func={own} onClick={() => app.set({ metric: `${kind}/delay`, selected: own, view: "sandwich" })} />;
  };
  return (
    <>
      {pairs.length > 0 && (
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
              {pairs.slice(0, 30).map(([lock, holder, waiter, contentions, delay], i) => (
                <tr key={i}>
                  <td class="num">{formatValue(delay, "nanoseconds")}</td>
                  <td class="num muted">{grouped(contentions)}</td>
                  <td class="half">{stack(waiter, "block")}</td>
                  <td class="half">{stack(holder, "mutex")}</td>
                  <td class="half muted">{names.get(lock) ?? ""}</td>
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
              <th scope="col">Lock</th>
            </tr>
          </thead>
          <tbody>
            {locks.slice(0, 30).map(([number, name, kind, contentions, delay, longest, holds, hold]) => (
              <tr key={number}>
                <td class="num">{formatValue(delay, "nanoseconds")}</td>
                <td class="num">{grouped(contentions)}</td>
                <td class="num muted">{contentions > 0 ? formatValue(delay / contentions, "nanoseconds") : ""}</td>
                <td class="num muted">{formatValue(longest, "nanoseconds")}</td>
                <td class="num muted">{holds > 0 ? formatValue(hold / holds, "nanoseconds") : ""}</td>
                <td>{kind}</td>
                <td class="name">
                  <span class="fn-name">{name}</span>
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
              {data.rows.slice(0, 50).map((row) => (
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
  const both = has("block") && has("mutex") && waiters.delay > 0;
  const held = byKind(app, "block", "wait").reduce((sum, [kind, value]) => (heldKinds.test(kind) ? sum + value : sum), 0);
  const gap = stated(app, "gap_ns");
  return (
    <section class="view scroll" aria-label="Locks" tabIndex={0}>
      {both && held > 0 && (
        <p class="lead">
          Holders account for <b>{formatPercent(holders.delay, held)}</b> of the {formatValue(held, "nanoseconds")} that were waited for locks
          {gap > 0 && (
            <>
              , the gaps from an unlock until the next thread ran for <b>{formatPercent(gap, held)}</b>
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
  rows: LockRow[];
  kind: "block" | "mutex";
  total: number;
}

/** The other side of a function's waits or holds: from the pairs that were seen, else the largest of all. */
export function otherSide(app: App, func: number): OtherSide | null {
  const { kind } = app.model.metric(app.state);
  if (kind !== "block" && kind !== "mutex") return null;
  const other = kind === "block" ? "mutex" : "block";
  const title = kind === "block" ? "Who held while others waited" : "Who waited meanwhile";
  const rows = new Map<number, LockRow>();
  let total = 0;
  for (const [, holder, waiter, contentions, delay] of singleLocks(app).pairs) {
    const [mine, theirs] = kind === "block" ? [waiter, holder] : [holder, waiter];
    if (!stackOf(app, mine).includes(func)) continue;
    const own = ownOf(app, stackOf(app, theirs));
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
