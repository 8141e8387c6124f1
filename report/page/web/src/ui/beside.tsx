// The table beside the flame graph: the largest functions, each with the colour of its boxes. Pointing at a function in the table
// or at a box in the graph highlights it in the other.
import { useEffect, useRef } from "preact/hooks";
import type { FunctionRow } from "../core/functions";
import type { SortKey } from "../core/state";
import { byRank } from "../core/waits";
import { nameOf, signedText, valueText, type App } from "./app_api";
import { swatches } from "./colours";
import { Name } from "./name";

const most = 120;

export function Beside({ app }: { app: App }) {
  const { model, state } = app;
  const body = useRef<HTMLTableSectionElement>(null);
  const compared = state.compare !== null;
  const signed = compared || model.hasNegative(state);
  const matches = model.matches(state.search);
  const own = (row: FunctionRow) => row.self[0]! - (compared ? row.self[1]! : 0);
  const all = (row: FunctionRow) => row.total[0]! - (compared ? row.total[1]! : 0);
  const key = state.sort === "total" || state.sort === "name" ? state.sort : "self";
  const size = key === "total" ? all : own;
  const waits = model.waits(state);
  const part = key === "total" ? "total" : "self";
  const rank = byRank(waits, part);
  const rows = model
    .functions(state)
    .filter((row) => (matches === null || matches[row.func] === 1) && (own(row) !== 0 || all(row) !== 0))
    .sort((a, b) => (state.ascending ? -1 : 1) * (key === "name" ? b.func - a.func : rank(a, b) || Math.abs(size(b)) - Math.abs(size(a)) || Math.abs(all(b)) - Math.abs(all(a)) || a.func - b.func));
  const colourOf = swatches(model, state, app.dark);
  useEffect(
    () =>
      app.hover.listen((pointed) => {
        body.current?.querySelector(".pointed")?.classList.remove("pointed");
        if (pointed !== null && pointed.by !== "table") body.current?.querySelector(`[data-func="${pointed.func}"]`)?.classList.add("pointed");
      }),
    [app.hover],
  );
  const head = (sort: SortKey, text: string) => (
    <th scope="col" class={sort === "name" ? "" : "num"} aria-sort={key === sort ? (state.ascending ? "ascending" : "descending") : "none"}>
      <button class="sort" onClick={() => app.set({ sort, ascending: key === sort ? !state.ascending : sort === "name" })}>
        {text}
        {key === sort ? (state.ascending ? " ↑" : " ↓") : ""}
      </button>
    </th>
  );
  const text = (value: number) => (signed ? signedText(app, value) : valueText(app, value));
  return (
    <section class="beside" aria-label={signed ? "Functions by change" : "Functions"} tabIndex={0}>
      <table class="data" data-testid="beside">
        <thead>
          <tr>
            {head("name", "Function")}
            {waits !== null && (
              <th scope="col" class="num" title={`The part of ${part} that was waited for held locks. Rows are sorted by it`}>
                Locks
              </th>
            )}
            {head("self", compared ? "Δ Self" : "Self")}
            {waits === null && head("total", compared ? "Δ Total" : "Total")}
          </tr>
        </thead>
        <tbody ref={body} onPointerLeave={() => app.hover.set(null)}>
          {rows.slice(0, most).map((row) => (
            <tr
              key={row.func}
              data-func={row.func}
              class={state.selected === row.func ? "selected" : ""}
              onPointerEnter={() => app.hover.set({ func: row.func, node: 0, by: "table" })}
            >
              <td class="name">
                <button class="fn" title={nameOf(app, row.func)} onClick={() => app.set({ selected: row.func, pinned: [] })}>
                  <i class="swatch" style={{ background: colourOf(row) }} />
                  <Name text={model.shortName(row.func)} />
                </button>
              </td>
              {waits !== null && <td class="num">{text(waits.locksOf.get(row.func)?.[part][0] ?? 0)}</td>}
              <td class="num">{text(own(row))}</td>
              {waits === null && <td class="num muted">{text(all(row))}</td>}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > most && (
        <button class="quiet" onClick={() => app.set({ view: "functions" })}>
          All {rows.length} functions
        </button>
      )}
    </section>
  );
}
