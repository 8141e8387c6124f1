// One function between its callers and callees: as two flame graphs, and as two lists (pprof's peek).
import { calleeTree, callerTree, neighbours } from "../core/functions";
import type { FlameTree } from "../core/tree";
import { nameOf, percentText, valueText, type App } from "./app_api";
import { FlameGraph } from "./flame";
import { Bar, FunctionName } from "./tables";
import { leastOf } from "./model";

/** Returns the function to show: the selected one, else the one with the largest self value. */
export function functionShown(app: App): number {
  const { model, state } = app;
  if (state.selected >= 0 && state.selected < model.report.names.length) return state.selected;
  let best = -1;
  let most = 0;
  for (const row of model.functions(state)) {
    if (Math.abs(row.self[0]!) > most) {
      most = Math.abs(row.self[0]!);
      best = row.func;
    }
  }
  return best;
}

export function FunctionPicker({ app, func }: { app: App; func: number }) {
  const rows = [...app.model.functions(app.state)].sort((a, b) => b.total[0]! - a.total[0]!);
  return (
    <label class="picker">
      function{" "}
      <select value={String(func)} onChange={(event) => app.set({ selected: Number(event.currentTarget.value) })}>
        {!rows.slice(0, 500).some((row) => row.func === func) && func >= 0 && <option value={String(func)}>{app.model.shortName(func)}</option>}
        {rows.slice(0, 500).map((row) => (
          <option key={row.func} value={String(row.func)}>
            {app.model.shortName(row.func)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function SandwichView({ app }: { app: App }) {
  const { model, state } = app;
  const func = functionShown(app);
  const tree = model.tree(state);
  const row = model.functionRow(state, func);
  if (func < 0 || row === undefined) {
    return (
      <div class="empty" role="status">
        <p>
          <b>{func < 0 ? "Nothing to show." : `${model.shortName(func)} is not in what is shown.`}</b>
        </p>
        <p>Choose a function in any view, or remove a filter.</p>
        <FunctionPicker app={app} func={func} />
      </div>
    );
  }
  const callers = callerTree(tree, func, state.byValue, leastOf(tree));
  const callees = calleeTree(tree, func, state.byValue);
  const sides = neighbours(tree, func);
  const total = row.total[0]!;
  const openIn = (shown: FlameTree) => (node: number) => {
    if (node > 0) app.set({ selected: shown.func[node]! });
  };
  const list = (title: string, values: Map<number, number[]>, none: string) => (
    <section aria-label={title}>
      <h3>{title}</h3>
      {values.size === 0 && <p class="muted">{none}</p>}
      <table class="data">
        <tbody>
          {[...values]
            .sort((a, b) => b[1][0]! - a[1][0]!)
            .slice(0, 100)
            .map(([fn, [value]]) => (
              <tr key={fn} data-fn={nameOf(app, fn)}>
                <td class="num">
                  {valueText(app, value!)}
                  <Bar part={Math.abs(value! / (total || 1))} />
                </td>
                <td class="num muted">{percentText(value!, total)}</td>
                <td class="name">{fn < 0 ? <span class="muted">(nothing above)</span> : <FunctionName app={app} func={fn} />}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </section>
  );
  const rootOnly = callers.size <= 2;
  return (
    <section class="view scroll sandwich" aria-label="Callers and callees" tabIndex={0}>
      <div class="view-options">
        <FunctionPicker app={app} func={func} />
        <span>
          total <b>{valueText(app, total)}</b> ({percentText(total, model.whole(state))}), self <b>{valueText(app, row.self[0]!)}</b>
        </span>
      </div>
      <h2 class="fn-title" title={nameOf(app, func)}>{model.shortName(func)}</h2>
      <h3>Called by</h3>
      {rootOnly ? (
        <p class="muted">Nothing calls it: stacks begin here.</p>
      ) : (
        <FlameGraph app={app} tree={callers} zoom={1} alone flame label="Callers" height={Math.min(260, 20 * callers.maxDepth)} onOpen={openIn(callers)} />
      )}
      <h3>Calls</h3>
      <FlameGraph app={app} tree={callees} zoom={1} alone flame={false} label="Callees" height={Math.min(260, 20 * callees.maxDepth)} onOpen={openIn(callees)} />
      <div class="two">
        {list("Callers", sides.callers, "None.")}
        {list("Callees", sides.callees, "None: it does the work itself.")}
      </div>
    </section>
  );
}
