// Locks: who waited (block profile) against who held (mutex profile), by function and by kind of lock.
import { formatPercent, formatValue, grouped } from "../core/units";
import { valuesFor } from "../core/select";
import { buildTree, functionTable } from "../core/tree";
import { nameOf, type App } from "./app_api";
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
            <b class="big">{formatValue(data.delay, "nanoseconds")}</b> in {grouped(data.count)} waits
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
  return (
    <section class="view scroll" aria-label="Locks" tabIndex={0}>
      {both && (
        <p class="lead">
          Holders account for <b>{formatPercent(holders.delay, waiters.delay)}</b> of the time that was waited. The rest passed between an unlock
          and the moment the next thread ran, or was caused by waits without a holder, such as conditions.
        </p>
      )}
      <div class="two">
        {side("Who waited", "block", waiters, "wait", "No block profile was given: the waiters' side is not known.")}
        {side("Who held", "mutex", holders, "lock", "No mutex profile was given: the holders' side is not known.")}
      </div>
    </section>
  );
}

/** The other side for the inspector: the largest of the opposite kind. */
export function otherSide(app: App): { title: string; rows: LockRow[]; kind: "block" | "mutex"; total: number } | null {
  const { kind } = app.model.metric(app.state);
  if (kind !== "block" && kind !== "mutex") return null;
  const other = kind === "block" ? "mutex" : "block";
  if (!app.model.report.series.some((series) => series.kind === other)) return null;
  const { rows, delay } = lockSide(app, other);
  return { title: kind === "block" ? "Who held while others waited" : "Who waited meanwhile", rows: rows.slice(0, 6), kind: other, total: delay };
}

