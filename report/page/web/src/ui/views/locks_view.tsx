// Locks: who waited for whom, the hottest locks, and both sides by function: waiters (block profile), holders (mutex profile).
import { formatPercent, formatRough, formatValue, grouped } from "../../core/units";
import { nameOf, type App } from "../app_api";
import { counted, lockFlows, lockSide, singleLocks, waitingNow, waitingNs, pairRows, type Side, type SideRow } from "./lock_data";
import { LockDrawing } from "./lock_drawing";
import { Bar, FunctionName, number, TableHead } from "../tables";

const heldKinds = /^(mutex|rwlock|spin|futex)/; // kinds with a holder, unlike conditions, semaphores, joins

function SingleLocks({ app }: { app: App }) {
  const data = singleLocks(app);
  const { locks, pairs } = data;
  if (locks.length === 0) return null;
  const whom = pairRows(pairs);
  const hasFlows = whom.length > 0 || lockFlows(data, 1).locks.size > 0;
  const someGoOn = locks.some(({ lock }) => waitingNow(lock) > 0);
  const title = locks[0]!.lock[10] === 0 ? "Hottest locks" : "No thread waited for a lock. Threads waited for events";
  // The files list them once, for the whole run.
  const isPart = app.model.isPart(app.state) || app.state.chips.length > 0;
  const part = isPart ? <span class="whole-run">whole run: range, labels and filters do not apply</span> : null;
  const name = (func: number, kind: "block" | "mutex") =>
    func < 0 ? (
      <span class="muted">not sampled</span>
    ) : (
      <FunctionName app={app} func={func} onClick={() => app.set({ metric: `${kind}/delay`, selected: func, view: "sandwich" })} />
    );
  return (
    <>
      {[...new Set(locks.flatMap(({ series }) => [series.names, series.lockNames]))]
        .filter((text) => text !== "")
        .map((text) => (
          <p key={text} class="muted" data-testid="lock-names">
            {text}
          </p>
        ))}
      {hasFlows && (
      <section aria-label="Who waited for whom">
        <h2>Who waited for whom{part}</h2>
        <LockDrawing app={app} data={data} onOpen={(func, kind) => app.set({ metric: `${kind}/delay`, selected: func, view: "sandwich" })} />
        {whom.length > 0 && (
          <div class="table-frame" role="group" tabIndex={0} aria-label="Who waited for whom, as a table">
          <table class="data" data-testid="lock-pairs">
            <TableHead
              columns={[
                "Lock", number("Delay"), number("Number"), "Waited",
                number("p99", "99 of 100 waits at its call sites are at most this long (estimated, for all locks)"), "Held",
                number("p99", "99 of 100 holds that end at its call sites are at most this long (estimated, for all locks)"),
              ]}
            />
            <tbody>
              {whom.slice(0, 30).map((row, i) => (
                <tr key={i}>
                  <td class="lock" title={row.lock}>{row.lock}</td>
                  <td class="num">{formatValue(Math.trunc(row.delay), "nanoseconds")}</td>
                  <td class="num muted">{grouped(row.count)}</td>
                  <td class="half">{name(row.waiter, "block")}</td>
                  <td class="num muted">{formatRough(row.waitedP99)}</td>
                  <td class="half">{name(row.holder, "mutex")}</td>
                  <td class="num muted">{formatRough(row.heldP99)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          </div>
        )}
      </section>
      )}
      <section aria-label={title}>
        <h2>{title}{part}</h2>
        <div class="table-frame" role="group" tabIndex={0} aria-label="Locks, as a table">
          <table class="data" data-testid="lock-list">
          <TableHead
            columns={[
              "Lock", number("Delay"), number("Waits"),
              someGoOn && number("Now", "Waits in progress at the snapshot, and their time so far. Delay and Waits count finished waits."),
              ["How long", "", "Lengths of waits, and of holds during which another thread waited: counted, each within 12 %, without waits in progress"],
              ...["p50", "p90", "p99", "Longest"].map((text) => number(text)), "Kind", "Top holder", "Top waiter",
            ]}
          />
          <tbody>
            {locks.slice(0, 30).map(({ series, lock, lock: [number, title, kind, contentions, delay, , , , holder, waiter, , ...lengths] }) => (
              <tr key={`${series.process} ${number}`}>
                <td class="lock" title={title}>{title}</td>
                <td class="num">{formatValue(delay, "nanoseconds")}</td>
                <td class="num">{grouped(contentions)}</td>
                {someGoOn && (
                  <td class="num">
                    {waitingNow(lock) > 0 && (
                      <>
                        {grouped(waitingNow(lock))}
                        <br />
                        <span class="muted">{formatValue(waitingNs(lock), "nanoseconds")}</span>
                      </>
                    )}
                  </td>
                )}
                <td class="muted">
                  waited
                  <br />
                  held
                </td>
                {lengths.slice(0, 4).map((ns, i) => (
                  <td key={i} class={i === 2 ? "num" : "num muted"}>
                    {formatRough(ns)}
                    <br />
                    {formatRough(lengths[i + 4]!)}
                  </td>
                ))}
                <td>{kind}</td>
                <td class="half">{holder < 0 ? "" : name(holder, "mutex")}</td>
                <td class="half">{waiter < 0 ? "" : name(waiter, "block")}</td>
              </tr>
            ))}
          </tbody>
        </table>
          </div>
      </section>
    </>
  );
}

export function LocksView({ app }: { app: App }) {
  const { state } = app;
  const { report } = app.model;
  const has = (kind: string) => report.series.some((series) => series.kind === kind);
  if (!has("block") && !has("mutex")) {
    return (
      <div class="empty" role="status">
        <p>
          <b>This report has no lock profile.</b>
        </p>
        <p>
          No thread waited long enough for a lock, or the report has only heap profiles. Add <code>*.block.pb.gz</code> and{" "}
          <code>*.mutex.pb.gz</code>, or give the whole folder.
        </p>
      </div>
    );
  }
  const waiters = lockSide(app, "block");
  const holders = lockSide(app, "mutex");
  const matches = app.model.matches(state.search);
  const found = (row: SideRow) => matches === null || matches[row.func] === 1;
  const side = (title: string, kind: "block" | "mutex", data: Side, hint: string) => {
    const largest = Math.max(...data.rows.map((row) => row.delay));
    return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {!has(kind) ? (
        <p class="muted">{hint}</p>
      ) : (
        <>
          <p>
            <b class="big">{formatValue(data.delay, "nanoseconds")}</b> in {grouped(data.count)} {kind === "block" ? "waits" : "holds"}
            {data.count > 0 && <>, {formatValue(data.delay / data.count, "nanoseconds")} each</>}
            {data.locks !== null && <>; {formatValue(data.locks, "nanoseconds")} of it for locks, the rest for what nobody holds</>}
          </p>
          {data.ignored.length > 0 && (
            <p class="muted" data-testid={`unfiltered-${kind}`}>
              Not filtered by {data.ignored.join(", ")}: these samples carry no such label.
            </p>
          )}
          <p class="kinds">
            {data.kinds.map(([text, value]) => (
              <span key={text}>
                {text} <b>{formatValue(value, "nanoseconds")}</b> {formatPercent(value, data.delay)}
              </span>
            ))}
          </p>
          <table class="data" data-testid={`locks-${kind}`}>
            <TableHead
              columns={[
                number("Delay"), number("%"), number("Number"), number("Mean"),
                data.locks !== null && number("For locks", "The part of the delay that was for held locks. Rows are sorted by it"), "Function",
              ]}
            />
            <tbody>
              {data.rows.filter(found).slice(0, 50).map((row) => (
                <tr key={row.func} data-fn={nameOf(app, row.func)}>
                  <td class="num">
                    {formatValue(row.delay, "nanoseconds")}
                    <Bar part={row.delay / (largest || 1)} />
                  </td>
                  <td class="num muted">{formatPercent(row.delay, data.delay)}</td>
                  <td class="num">{grouped(row.count)}</td>
                  <td class="num muted">{row.count > 0 ? formatValue(row.delay / row.count, "nanoseconds") : ""}</td>
                  {data.locks !== null && <td class="num">{formatValue(row.locks ?? 0, "nanoseconds")}</td>}
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
  };
  const held = waiters.kinds.reduce((sum, [kind, value]) => (heldKinds.test(kind) ? sum + value : sum), 0);
  // The whole run was counted exactly, both holders and the delay of hand-offs (docs/locks.md). For a part of it there are only
  // estimates.
  const isPart = app.model.isPart(state) || state.chips.length > 0;
  const handOff = isPart ? 0 : counted(app, "gap_ns");
  const blamed = handOff > 0 ? counted(app, "delay_ns") || holders.delay : holders.delay;
  const whole = handOff > 0 ? blamed + handOff : held;
  const withEvents = waiters.locks !== null && held > 1.01 * waiters.locks;
  // If only one side has a label, the two figures belong to different samples.
  const both = has("block") && has("mutex") && waiters.delay > 0 && whole > 0 && waiters.ignored.length + holders.ignored.length === 0;
  return (
    <section class="view scroll" aria-label="Locks" tabIndex={0}>
      {both && (
        <p class="lead">
          {handOff > 0 ? "By exact counts, threads waited " : "Threads waited "}
          {formatValue(whole, "nanoseconds")} for locks{withEvents && ", and for futexes that are events"}: holders account for <b>{formatPercent(blamed, whole)}</b>
          {handOff > 0 && (
            <>
              , the delay from an unlock until the next thread ran for <b>{formatPercent(handOff, whole)}</b>
            </>
          )}
          {state.weight !== null && " (in all snapshots: the weight does not apply)"}.{waiters.delay > 1.01 * held && <> Other waits are for conditions, joins and the like, which nobody holds.</>}
        </p>
      )}
      <SingleLocks app={app} />
      <div class="two">
        {side("Who waited", "block", waiters, "The report has no block profile, so the waiters are unknown.")}
        {side("Who held", "mutex", holders, "The report has no mutex profile, so the holders are unknown.")}
      </div>
    </section>
  );
}

