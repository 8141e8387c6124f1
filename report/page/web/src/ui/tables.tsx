// Tables: the flat list of functions, and the top-down and bottom-up trees.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { samePlaces } from "./same_place";
import { shortPath } from "../core/classify";
import type { FunctionRow } from "../core/functions";
import type { SortKey } from "../core/state";
import { byRank } from "../core/waits";
import { type FlameTree } from "../core/tree";
import { nameOf, percentText, signedText, valueText, type App } from "./app_api";
import { changeOf } from "./colours";
import { Name } from "./name";
import { Nothing } from "./flame";

export function FunctionName({ app, func, onClick }: { app: App; func: number; onClick?: () => void }) {
  const object = app.model.object(func);
  return (
    <button
      class={`fn ${app.state.selected === func ? "selected" : ""}`}
      title={nameOf(app, func)}
      onClick={onClick ?? (() => app.set({ selected: func }))}
    >
      <Name text={app.model.shortName(func)} />
      {object !== "" && <span class="fn-object">{object}</span>}
    </button>
  );
}

// The titles of a table's columns: a text, or [text, class, hint]; false: no such column.
export type Column = false | string | [text: string, className: string, hint?: string];
export const number = (text: string, hint?: string): Column => [text, "num", hint];

export function TableHead({ columns }: { columns: Column[] }) {
  return (
    <thead>
      <tr>
        {columns.map((column, i) => {
          if (column === false) return null;
          const [text, className, hint] = typeof column === "string" ? [column] : column;
          return (
            <th key={i} scope="col" class={className} title={hint}>
              {text}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

export function Bar({ part, class: name }: { part: number; class?: string }) {
  return (
    <span class={`bar ${name ?? ""}`} aria-hidden="true">
      <i style={{ width: `${Math.max(0, Math.min(100, part * 100))}%` }} />
    </span>
  );
}

export function FunctionsView({ app }: { app: App }) {
  const { model, state } = app;
  const { sort, ascending } = state;
  const [limit, setLimit] = useState(200);
  const compared = state.compare !== null;
  const matches = model.matches(state.search);
  const all = model.functions(state);
  const rows = all.filter((row) => (matches === null || matches[row.func] === 1) && row.total.slice(0, 2).some((v) => v !== 0));
  const whole = model.whole(state);
  const largest = Math.max(1, ...rows.map((row) => Math.abs(row.self[0]!)));
  const waits = model.waits(state);
  const part = sort === "total" ? "total" : "self";
  const rank = byRank(waits, part);
  const change = (row: { total: number[] }) => row.total[0]! - (row.total[1] ?? 0);
  const order = (a: FunctionRow, b: FunctionRow): number => {
    if (sort === "name") return b.func - a.func; // alphabetical order is ascending
    if (sort === "change") return Math.abs(change(b)) - Math.abs(change(a)) || a.func - b.func;
    if (sort === "base") return (b.total[1] ?? 0) - (a.total[1] ?? 0) || a.func - b.func;
    const second = sort === "self" ? "total" : "self";
    const first = rank(a, b);
    if (first !== 0) return first;
    return b[sort][0]! - a[sort][0]! || b[second][0]! - a[second][0]! || a.func - b.func;
  };
  rows.sort((a, b) => (ascending ? -order(a, b) : order(a, b)));
  const head = (key: SortKey, text: string, help: string) => (
    <th scope="col" class={key === "name" ? "" : "num"} aria-sort={sort === key ? (ascending ? "ascending" : "descending") : "none"}>
      <button class="sort" title={help} onClick={() => app.set({ sort: key, ascending: sort === key ? !ascending : key === "name" })}>
        {text}
        {sort === key ? (ascending ? " ↑" : " ↓") : ""}
      </button>
    </th>
  );
  if (all.length === 0) return <Nothing app={app} />;
  const placed = rows.slice(0, limit).some((row) => model.place(row.func) !== "");
  return (
    <section class="view scroll" aria-label="Functions" tabIndex={0}>
      <table class="data functions" data-testid="functions">
        <caption>
          {rows.length} functions{matches !== null ? ` that match “${state.search}”` : ""}. Self is what a function used directly, total what
          it and all that it called used.
        </caption>
        <thead>
          <tr>
            {waits !== null && (
              <th scope="col" class="num" title={`The part of ${part} that was waited for held locks. Rows are sorted by it`}>
                Locks
              </th>
            )}
            {head("self", "Self", "Used by the function itself")}
            <th scope="col" class="num part">
              self %
            </th>
            {head("total", "Total", "Used by the function and all that it called; recursion counts once")}
            <th scope="col" class="num part">
              total %
            </th>
            {compared && (
              <>
                {head("base", "Base", "The total on the other side")}
                {head("change", "Change", "Of the total; grey: within the sampling error")}
              </>
            )}
            {head("name", "Function", "Alphabetical order")}
            {placed && <th scope="col" class="where">Where</th>}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((row) => {
            const self = row.self[0]!;
            const total = row.total[0]!;
            return (
              <tr key={row.func} data-fn={nameOf(app, row.func)} class={state.selected === row.func ? "selected" : ""}>
                {waits !== null && <td class="num">{valueText(app, waits.locksOf.get(row.func)?.[part][0] ?? 0)}</td>}
                <td class="num">
                  {valueText(app, self)}
                  <Bar part={Math.abs(self) / largest} />
                </td>
                <td class="num part muted">{percentText(self, whole)}</td>
                <td class="num">{valueText(app, total)}</td>
                <td class="num part muted">{percentText(total, whole)}</td>
                {compared && (
                  <>
                    <td class="num">{valueText(app, row.total[1]!)}</td>
                    <td class={`num change ${changeOf(total, row.total[1]!, row.total[2]!)}`}>{signedText(app, change(row))}</td>
                  </>
                )}
                <td class="name">
                  <FunctionName app={app} func={row.func} />
                  {self > 0 && self >= 0.9 * total && <span class="flag" title="Self is nearly the total: the function does the work itself">works</span>}
                  {total > 0.1 * whole && self < 0.05 * total && (
                    <span class="flag" title="Large total, small self: look at its callees">
                      calls
                    </span>
                  )}
                </td>
                {placed && <td class="muted where" title={model.place(row.func)}>{shortPath(model.place(row.func))}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length > limit && (
        <button class="more" onClick={() => setLimit(limit + 500)}>
          Show {Math.min(500, rows.length - limit)} more of {rows.length - limit}
        </button>
      )}
    </section>
  );
}

interface TreeRow {
  node: number;
  level: number;
  hidden: number; // children that are not shown; this row then says so
}

const mostChildren = 100;

/** A tree as a table; expanded along the heaviest path. */
export function TreeTable({ app, tree, label, topTotal }: { app: App; tree: FlameTree; label: string; topTotal?: boolean }) {
  const { model, state } = app;
  const [shown, setShown] = useState({ tree, model, open: new Set<number>(), more: new Set<number>() });
  // When a new moment of a live page arrives, expanded rows stay expanded.
  const isNext = shown.model !== model;
  const { open, more } = isNext ? { open: samePlaces(shown, { tree, model }, shown.open), more: samePlaces(shown, { tree, model }, shown.more) } : shown;
  const setOpen = (nodes: Set<number>) => setShown({ tree, model, open: nodes, more });
  const setMore = (nodes: Set<number>) => setShown({ tree, model, open, more: nodes });
  const { least } = state;
  useLayoutEffect(() => {
    if (isNext) return setShown({ tree, model, open, more });
    const path = new Set<number>([0]);
    for (let node = 0, steps = 0; steps < 40; ++steps) {
      let best = -1;
      for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) if (best < 0 || tree.weight[i]! > tree.weight[best]!) best = i;
      if (best < 0 || tree.weight[best]! < 0.5 * tree.weight[0]!) break;
      path.add(best);
      node = best;
    }
    setShown({ tree, model, open: path, more: new Set() });
  }, [tree]);
  const rows: TreeRow[] = [];
  const visit = (node: number, level: number) => {
    const children: number[] = [];
    for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) children.push(i);
    children.sort((a, b) => (least ? -1 : 1) * (tree.weight[b]! - tree.weight[a]!));
    const shown = more.has(node) ? children.length : mostChildren;
    for (const child of children.slice(0, shown)) {
      rows.push({ node: child, level, hidden: 0 });
      if (open.has(child) && rows.length < 5000) visit(child, level + 1);
    }
    if (children.length > shown) rows.push({ node, level, hidden: children.length - shown });
  };
  visit(0, 1);
  const whole = model.whole(state);
  const toggle = (node: number, wanted?: boolean) => {
    const next = new Set(open);
    if (wanted ?? !open.has(node)) next.add(node);
    else next.delete(node);
    setOpen(next);
  };
  const onKey = (event: KeyboardEvent) => {
    const row = (event.target as HTMLElement).closest("tr");
    if (row === null) return;
    const node = Number(row.dataset["node"]);
    const next = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? row.previousElementSibling : null;
    if (next !== null) (next.querySelector(".fn") as HTMLElement | null)?.focus();
    else if (event.key === "ArrowRight") toggle(node, true);
    else if (event.key === "ArrowLeft") toggle(node, false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const compared = state.compare !== null;
  const top = (node: number) => {
    let i = node;
    while (tree.depth[i]! > 1) i = tree.parent[i]!;
    return i;
  };
  if (rows.length === 0) return <Nothing app={app} />;
  return (
    <div class="view scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="data tree" role="treegrid" aria-label={label} onKeyDown={onKey}>
        <thead>
          <tr>
            <th scope="col" class="num" aria-sort={least ? "ascending" : "descending"}>
              <button class="sort" title="Most or least first" onClick={() => app.set({ least: !least })}>
                Total {least ? "↑" : "↓"}
              </button>
            </th>
            <th scope="col" class="num">
              of all
            </th>
            {topTotal === true && (
              <th scope="col" class="num" title="Percent of the function at the top of this branch">
                of top
              </th>
            )}
            {topTotal !== true && (
              <>
                <th scope="col" class="num">
                  Self
                </th>
                <th scope="col" class="num">
                  Children
                </th>
              </>
            )}
            {compared && (
              <th scope="col" class="num">
                Change
              </th>
            )}
            <th scope="col">Function</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ node, level, hidden }) => {
            if (hidden > 0) {
              return (
                <tr key={`more ${node}`}>
                  <td colSpan={(topTotal === true ? 3 : 4) + (compared ? 1 : 0)} />
                  <td style={{ paddingLeft: `${level * 16}px` }}>
                    <button class="quiet" onClick={() => setMore(new Set(more).add(node))}>
                      {hidden} more, {least ? "larger" : "smaller"} ones
                    </button>
                  </td>
                </tr>
              );
            }
            const total = tree.total[0]![node]!;
            const self = tree.self[0]![node]!;
            const leaf = tree.end[node] === node + 1;
            return (
              <tr
                key={node}
                data-node={node}
                role="row"
                aria-level={level}
                aria-expanded={leaf ? undefined : open.has(node)}
                class={state.selected === tree.func[node] ? "selected" : ""}
              >
                <td class="num">
                  {valueText(app, total)}
                  <Bar part={Math.abs(total) / (whole || 1)} />
                </td>
                <td class="num muted">{percentText(total, whole)}</td>
                {topTotal === true && <td class="num muted">{percentText(total, tree.total[0]![top(node)]!)}</td>}
                {topTotal !== true && (
                  <>
                    <td class="num">{valueText(app, self)}</td>
                    <td class="num muted">{valueText(app, total - self)}</td>
                  </>
                )}
                {compared && (
                  <td class={`num change ${changeOf(total, tree.total[1]![node]!, tree.total[2]![node]!)}`}>
                    {signedText(app, total - tree.total[1]![node]!)}
                  </td>
                )}
                <td class="name" style={{ paddingLeft: `${level * 16 - 12}px` }}>
                  <button class="twist" tabIndex={-1} aria-label={open.has(node) ? "Close" : "Open"} disabled={leaf} onClick={() => toggle(node)}>
                    {leaf ? "·" : open.has(node) ? "▾" : "▸"}
                  </button>
                  <FunctionName app={app} func={tree.func[node]!} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function TopDownView({ app }: { app: App }) {
  const threads = app.model.labelValues.get("thread") ?? [];
  return (
    <>
      {threads.length > 1 && (
        <div class="view-options">
          <label>
            thread{" "}
            <select
              value={app.state.labels.find((l) => l.key === "thread")?.text ?? ""}
              onChange={(event) => {
                const text = event.currentTarget.value;
                const others = app.state.labels.filter((l) => l.key !== "thread");
                app.set({ labels: text === "" ? others : [...others, { key: "thread", text }] });
              }}
            >
              <option value="">all</option>
              {threads.map((text) => (
                <option key={text}>{text}</option>
              ))}
            </select>
          </label>
        </div>
      )}
      <TreeTable app={app} tree={app.model.tree(app.state)} label="Top-down: functions and what they call" />
    </>
  );
}

export function BottomUpView({ app }: { app: App }) {
  return <TreeTable app={app} tree={app.model.inverted(app.state)} label="Bottom-up: functions and who calls them" topTotal />;
}
