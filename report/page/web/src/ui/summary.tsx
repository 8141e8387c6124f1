// The head of the page: how much, how certain, and what is unusual. It must be understood at three in the morning.
import { formatSigned, formatValue, grouped } from "../core/units";
import { isMemory, metricHelp, metricKey } from "../core/metrics";
import { pathOf } from "../core/tree";
import { percentText, signedText, valueText, type App } from "./app_api";
import { changeText } from "./views/compare_view";
import { mainKind, rateUnit, worst } from "../core/leaks";
import { ownOf, Rise } from "./views/leaks_view";
import { lockSide, singleLocks, waitingNs } from "./views/lock_data";

interface Finding {
  title: string;
  text: preact.ComponentChildren;
  open?: () => void;
  tone?: "warn" | "good";
}

/** Follows the heaviest path while one child has most of it; returns the place where it splits. */
function heaviest(app: App): { node: number; share: number } {
  const tree = app.model.tree(app.state);
  const whole = tree.weight[0]! || 1;
  let node = 0;
  for (;;) {
    let best = -1;
    for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) if (best < 0 || tree.weight[i]! > tree.weight[best]!) best = i;
    if (best < 0 || tree.weight[best]! < 0.4 * whole || tree.weight[best]! < 0.6 * tree.weight[node]!) break;
    node = best;
  }
  return { node, share: tree.weight[node]! / whole };
}

function findings(app: App): Finding[] {
  const { model, state } = app;
  const metric = model.metric(state);
  const tree = model.tree(state);
  const found: Finding[] = [];
  if (state.compare !== null) {
    const difference = tree.total[0]![0]! - tree.total[1]![0]!;
    const isSure = !state.normalise && difference > 1.96 * Math.sqrt(tree.total[2]![0]!);
    found.push({ title: "Change", text: changeText(app), open: () => app.set({ view: "compare" }), ...(isSure ? { tone: "warn" as const } : {}) });
  }
  const negative = model.hasNegative(state);
  const waits = model.waits(state);
  const biggest = model.biggest(state);
  if (biggest !== null) {
    found.push({
      title: "Biggest",
      text: (
        <>
          <b>{negative ? signedText(app, biggest.value) : valueText(app, biggest.value)}</b>
          {waits !== null && " for locks"}
          {!negative && `, ${percentText(biggest.value, model.whole(state))}`} {negative ? "in" : byOf(metric.kind, metric.name)}{" "}
          <b class="fn-text">{biggest.name}</b>
          {biggest.other !== "" && <span class="muted">, mostly {biggest.isBranch ? "by" : metric.kind === "block" || metric.kind === "mutex" ? "called by" : "for"} <span class="fn-text">{biggest.other}</span></span>}
        </>
      ),
      open: () => app.set({ selected: biggest.func, zoom: [], view: "sandwich" }),
    });
  }
  if (waits !== null) {
    const rest: [number, string][] = [[waits.events, "events"], [waits.idle, "idle"]];
    const text = [`${valueText(app, waits.locks)} locks`, ...rest.filter(([value]) => value > 0).map(([value, what]) => `${valueText(app, value)} ${what}`)];
    found.push({ title: "Waits", text: <><b>{text[0]}</b>{text.slice(1).map((part) => `, ${part}`).join("")}</>, open: () => app.set({ view: "functions" }) });
  }
  const { node, share } = heaviest(app);
  if (node > 0 && share < 0.97 && tree.func[node] !== biggest?.func && model.report.functionPlumbing[tree.func[node]!] === 0) {
    found.push({
      title: "Through",
      text: (
        <>
          <b>{Math.round(share * 100)} %</b> goes through <b class="fn-text">{model.shortName(tree.func[node]!)}</b>, then splits
        </>
      ),
      open: () => app.set({ selected: tree.func[node]!, zoom: pathOf(tree, node), view: "flame", inverted: false }),
    });
  }
  if ((metric.kind === "heap" || metric.kind === "peak" || metric.kind === "map") && model.growths(state).length > 0) {
    found.push(growthFinding(app));
  }
  if (metric.kind === "heap" || metric.kind === "peak") {
    // Idle threads wait for work, which nobody holds: nothing to look into.
    const blocks = model.report.series.filter((series) => series.kind === "block" && !series.base && model.hasProcess(state, series.process));
    const waited = blocks.reduce((sum, { heldLockDelay = 0 }) => sum + heldLockDelay, 0);
    if (waited > 0) {
      const hottest = singleLocks(app).locks.find(({ lock }) => lock[10] === 0);
      found.push({
        title: "Locks",
        ...(blocks.some(({ lockTrouble }) => lockTrouble === true) ? { tone: "warn" as const } : {}),
        text: (
          <>
            <b>{formatValue(waited, "nanoseconds")}</b> waited for locks that others held
            {hottest !== undefined && (
              <>
                , most for <b class="fn-text">{hottest.lock[1]}</b>
              </>
            )}
            {model.isPart(state) && ", over the whole run"}
          </>
        ),
        open: () => app.set({ metric: "block/delay", view: "locks", zoom: [], selected: -1 }),
      });
    }
  }
  // Problems come first, then the usual figures.
  const isWrong = ({ title, tone }: Finding) => tone === "warn" && (title === "Growth" || title === "Locks");
  found.sort((a, b) => Number(isWrong(b)) - Number(isWrong(a)));
  const names = model.report.series.find((series) => !series.base && series.kind === metric.kind && series.names !== "" && model.hasProcess(state, series.process));
  if (names !== undefined) found.push({ title: "Names", text: names.names, tone: "warn" });
  const losses = model.report.series.flatMap((series) => (series.base ? [] : series.losses));
  if (losses.length > 0) found.push({ title: "Lost", text: losses[0]!, tone: "warn" });
  return found.slice(0, 5);
}

/** Returns the owner of growing memory; else the verdict with its bound. */
function growthFinding(app: App): Finding {
  const { model, state } = app;
  const whole = model.isPart(state) ? ", over the whole run" : "";
  const open = () => app.set({ view: "leaks" });
  const first = model.leaks(state).find(({ leaks }) => leaks);
  if (first !== undefined) {
    // Show what was observed; the Leaks view shows the hourly rate.
    const rising = worst(model.growths(state))!;
    const text = (
      <>
        {rising.kind === "map" && "mappings: "}
        <Rise app={app} growth={rising} />
        {rising.answer.by === "" && <>, surest <b class="fn-text">{model.shortName(ownOf(app, first.stack))}</b></>}
        {whole}
      </>
    );
    return { title: "Growth", text, tone: "warn", open };
  }
  const rising = worst(model.growths(state));
  if (rising === undefined) return { title: "Growth", text: `no stack grows all the time${whole}`, tone: "good", open };
  return { title: "Growth", text: `${rising.kind === "map" ? "mappings: " : ""}${rising.answer.text}${whole}`, ...(rising.answer.grows === "level" ? { tone: "good" as const } : {}), open };
}

/** The words between a value and the function it belongs to. */
function byOf(kind: string, name: string): string {
  if (kind === "block") return "waited by";
  if (kind === "mutex") return "caused by";
  if (kind === "threads") return name === "alive" ? "kept by" : "created by";
  if (kind === "exceptions") return "thrown by";
  if (kind === "holders") return "held by";
  if (isMemory(kind)) return name.startsWith("alloc") ? "allocated by" : "held by";
  return "of";
}

function Findings({ found }: { found: Finding[] }) {
  return (
    <ul class="findings">
      {found.map(({ title, text, open, tone }) => (
        <li key={title} class={tone ?? ""}>
          <button onClick={open} disabled={open === undefined}>
            <span class="finding-title">{title}</span>{" "}
            <span class="finding-text">{text}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Returns "4.86s", "4.86s, and 2s so far" or "2s so far". */
function hottest(ended: number, goesOn: number): string {
  const soFar = `${formatValue(goesOn, "nanoseconds")} so far`;
  return goesOn === 0 ? formatValue(ended, "nanoseconds") : ended === 0 ? soFar : `${formatValue(ended, "nanoseconds")}, and ${soFar}`;
}

/** Leaks and locks have headlines of their own, because those of the chosen metric would be confusing. */
function ownHeadline(app: App): { value: string; title: string; found: Finding[] } | null {
  const { model, state } = app;
  if (state.view === "leaks") {
    const growths = model.growths(state);
    if (growths.length === 0) return null;
    const growing = growths.reduce((sum, growth) => sum + growth.growing, 0);
    const undecided = growths.some(({ answer }) => answer.grows !== "level");
    const sumGrows = growths.some(({ answer }) => answer.grows === "growing" || answer.grows === "grows in steps");
    const surest = model.leaks(state).find(({ leaks }) => leaks);
    const found: Finding[] = [{ title: "Stacks", text: growing === 0 ? (sumGrows ? "the sum grows" : undecided ? "none surely grows" : "none grows all the time") : `${grouped(growing)} ${growing === 1 ? "grows" : "grow"} all the time`, ...(growing > 0 || sumGrows ? { tone: "warn" as const } : undecided ? {} : { tone: "good" as const }) }];
    if (surest !== undefined) found.push({ title: "Surest", text: <b class="fn-text">{model.shortName(ownOf(app, surest.stack))}</b> });
    // A heap on mappings is in both: no sum.
    const summed = mainKind(growths);
    const slope = summed.reduce((sum, growth) => sum + growth.slope, 0);
    const { anHour, words } = rateUnit(growths);
    return { value: formatSigned(slope / anHour, "bytes"), title: `${words}, of ${formatValue(summed.reduce((sum, growth) => sum + growth.now, 0), "bytes")} ${summed[0]!.kind === "map" ? "mapped" : "in use"}`, found };
  }
  if (state.view !== "locks" || !model.report.series.some(({ kind }) => kind === "block" || kind === "mutex")) return null;
  const folded: App = { ...app, state: { ...state, fold: true } };
  const waiters = lockSide(folded, "block");
  const holders = lockSide(folded, "mutex");
  const found: Finding[] = [];
  const lock = singleLocks(app).locks.find(({ lock }) => lock[10] === 0);
  const part = model.isPart(state) ? ", over the whole run" : "";
  const isTrouble = model.report.series.some((series) => series.lockTrouble === true && !series.base && model.hasProcess(state, series.process));
  if (lock !== undefined) found.push({ title: "Hottest", ...(isTrouble ? { tone: "warn" as const } : {}), text: <><b>{hottest(lock.lock[4], waitingNs(lock.lock))}</b> for <b class="fn-text">{lock.lock[1]}</b>{part}</> });
  const side = (title: string, { rows, locks }: ReturnType<typeof lockSide>) => {
    if (rows[0] !== undefined) found.push({ title, text: <><b>{formatValue(locks === null ? rows[0].delay : rows[0].locks ?? 0, "nanoseconds")}</b> by <b class="fn-text">{model.shortName(rows[0].func)}</b></> });
  };
  side("Waits most", waiters);
  side("Makes others wait most", holders);
  const hasLocks = waiters.locks !== null && waiters.locks > 0;
  const title = waiters.locks === null ? "waited" : hasLocks ? `waited for locks, ${formatValue(waiters.delay, "nanoseconds")} with all other waits` : "waited, none of it for locks";
  return { value: formatValue(hasLocks ? waiters.locks! : waiters.delay, "nanoseconds"), title, found };
}

/** Threads that wait for each other: shown first, in every view. */
export function Deadlocks({ app }: { app: App }) {
  const { model, state } = app;
  const shown = model.report.series.filter((s) => !s.base && (state.process === "" || s.process === state.process));
  const deadlocks = [...new Set(shown.map((s) => s.deadlocks ?? ""))].join("");
  return deadlocks === "" ? null : (
    <pre class="deadlocks" role="alert" data-testid="deadlocks">
      {deadlocks}
    </pre>
  );
}

export function Summary({ app }: { app: App }) {
  const { model, state } = app;
  const own = ownHeadline(app);
  if (own !== null) {
    return (
      <section class="summary" aria-label="Summary" data-testid={`summary-${state.view}`}>
        <div class="figure">
          <div class="figure-value">{own.value}</div>{" "}
          <div class="figure-title">{own.title}</div>
        </div>
        <Findings found={own.found} />
      </section>
    );
  }
  const metric = model.metric(state);
  const help = metricHelp(metric.kind, metric.name);
  const tree = model.tree(state);
  const total = tree.total[0]![0]!;
  const all = model.values(state).total;
  const half = model.halfWidth(state) ?? (state.compare === null ? model.plusMinus(state, [0], false) : null);
  const series = model.report.series.filter((s) => s.kind === metric.kind && !s.base && (state.process === "" || s.process === state.process));
  const sampling = [...new Set(series.map((s) => s.sampling).filter((s) => s !== ""))].join(", ");
  const profiles = new Set(series.map((s) => s.process)).size;
  return (
    <section class="summary" aria-label="Summary">
      <div class="figure">
        <div class="figure-value" data-testid="total" title={`${help.when}${sampling === "" ? "" : ` Sampled ${sampling}.`}`}>
          {valueText(app, total)}
        </div>{" "}
        <div class="figure-title">{help.title.toLowerCase()}</div>{" "}
        <div class="figure-note">
          {half !== null && total > 0 && half > 0 && <span data-testid="half-width">± {valueText(app, half)} (95 %)</span>}
          {total > 0 && model.isExact(state) && <span>exact: every one was recorded</span>}
          {Math.abs(total - all) > 1e-9 * Math.abs(all) && <span>of {valueText(app, all)}, {percentText(total, all)}</span>}
          {model.report.opens?.metric === metricKey(metric) && <span class="opens" data-testid="opens">{model.report.opens.why}</span>}
          {profiles > 1 && <span>{grouped(profiles)} processes added up</span>}
          {model.averaged(state) !== "" && <span>{model.averaged(state)}</span>}
        </div>
      </div>
      <Findings found={findings(app)} />
    </section>
  );
}

