// The two sides of a comparison, and the functions that changed.
import type { ComponentChildren } from "preact";
import type { Compare } from "../../core/select";
import { nameOf, percentText, signedText, valueText, type App } from "../app_api";
import { comparesAs, type Change, type State } from "../../core/state";
import { viewTitles } from "../keys";
import { programNames } from "../../core/metrics";
import { momentAt, processLabel } from "../../core/select";
import { changeOf } from "../colours";
import { FunctionName, number, TableHead } from "../tables";
import { clock } from "../timeline";

const noDiff = "shows one side of a comparison at a time";
const headOnly = "is about one set of files, so it shows the head";

/** Base | Head | Diff, in every view: grey where a view has no such side, with the reason. */
export function Sides({ app }: { app: App }) {
  const { compared: state } = app;
  if (state.compare === null) return null;
  const as = comparesAs[state.view];
  const shown = as === "head" || (as === "one" && state.side === "both") ? "head" : state.view === "compare" ? "both" : state.side;
  const why = (side: State["side"]) => (as === "head" ? headOnly : as === "one" && side === "both" ? noDiff : state.view === "compare" && side !== "both" ? "lists what differs between both" : "");
  const titles = sideTitles(app);
  const reason = why("both") || why("base");
  return (
    <div class="sides" role="group" aria-label="Side" title={reason === "" ? undefined : `${viewTitles[state.view]} ${reason}`}>
      {(["base", "head", "both"] as const).map((side) => (
        <button
          key={side}
          aria-pressed={shown === side}
          disabled={why(side) !== ""}
          title={why(side) !== "" ? `${viewTitles[state.view]} ${why(side)}` : side === "both" ? "Both sides, with differences by colour and in columns" : titles[side]}
          onClick={() => app.set({ side })}
        >
          {{ base: "Base", head: "Head", both: "Diff" }[side]}
        </button>
      ))}
      {reason !== "" && state.view !== "compare" && <span class="muted sides-why">{as === "head" ? "head only" : "no difference in this view"}</span>}
    </div>
  );
}

export function CompareControls({ app }: { app: App }) {
  const { model, compared: state } = app;
  const moments = model.moments(state);
  const labels = [...model.labelValues].filter(([key, texts]) => key !== "bytes" && texts.length > 1);
  const value = state.compare === null ? "" : state.compare.type === "label" ? `label:${state.compare.key}` : state.compare.type;
  const choose = (text: string) => {
    let compare: Compare | null = null;
    if (text === "files" || text === "time") compare = { type: text };
    else if (text.startsWith("label:")) {
      const key = text.slice(6);
      const texts = model.labelValues.get(key)!;
      compare = { type: "label", key, base: texts[0]!, head: texts[1]! };
    }
    app.set({ compare, zoom: [] });
  };
  const { compare } = state;
  const titles = compare === null ? null : sideTitles(app);
  return (
    <div class="compare">
      <label>
        compare{" "}
        <select value={value} onChange={(event) => choose(event.currentTarget.value)} data-testid="compare">
          <option value="">nothing</option>
          {model.baseHas(state) && <option value="files">the files with their base</option>}
          {moments.length > 1 && <option value="time">the end of the range with its start</option>}
          {labels.map(([key]) => (
            <option key={key} value={`label:${key}`}>
              two values of “{key}”
            </option>
          ))}
        </select>
      </label>
      {compare?.type === "label" &&
        (["base", "head"] as const).map((side) => (
          <label key={side}>
            {side}{" "}
            <select value={compare[side]} aria-label={side} onChange={(event) => app.set({ compare: { ...compare, [side]: event.currentTarget.value } })}>
              {model.labelValues.get(compare.key)!.map((text) => (
                <option key={text}>{text}</option>
              ))}
            </select>
          </label>
        ))}
      {titles !== null && (
        <>
          <span class="compare-title" title={`${titles.base} → ${titles.head}`}>
            <b>{titles.base}</b> → <b>{titles.head}</b>
          </span>
          <label title="Scale the base to the total of the head, so that only shares are compared">
            <input type="checkbox" checked={state.normalise} onChange={() => app.set({ normalise: !state.normalise })} /> normalise
          </label>
          <label title="Orange and blue instead of red and green">
            <input type="checkbox" checked={state.safe} onChange={() => app.set({ safe: !state.safe })} /> colour-blind-safe
          </label>
        </>
      )}
    </div>
  );
}

/** What stands on both sides: files by folder, program, pid, build id and when they were written; moments; or values of a label. */
export function sideTitles(app: App): { base: string; head: string } {
  const { model, compared: state } = app;
  const { compare } = state;
  const moments = model.moments(state);
  if (compare?.type === "label") return { base: `${compare.key} ${compare.base}`, head: `${compare.key} ${compare.head}` };
  if (compare?.type === "time") {
    const at = (ms: number) => clock(moments[Math.max(0, momentAt(moments, ms))]!);
    return { base: at(state.from < 0 ? moments[0]! : state.from), head: at(state.to < 0 ? moments[moments.length - 1]! : state.to) };
  }
  const { kind, name } = model.metric(state);
  const side = (base: boolean) => {
    const shown = model.report.series.filter((series) => series.kind === kind && series.base === base && (base || model.hasProcess(state, series.process)));
    if (shown.length === 0) return "nothing";
    const newest = shown[0]!.snapshots[shown[0]!.snapshots.length - 1]!;
    const names = programNames(shown, name);
    const pids = [...new Set(shown.map(({ pid }) => pid))].filter((pid) => pid !== "");
    const builds = [...new Set(shown.map((series) => processLabel(model.report, series, "build id")))].filter((id) => id !== "");
    const one = (texts: string[], what: string) => (texts.length === 1 ? `${what} ${texts[0]!.slice(0, 8)}` : texts.length > 1 ? `${texts.length} ${what}s` : "");
    const who = `${names[0]}${names.length > 1 ? ` and ${names.length - 1} more` : ""}`;
    return [shown[0]!.folder, who, one(pids, "pid"), one(builds, "build"), clock(newest.ms)].filter((text) => text !== "").join(" · ");
  };
  return { base: side(true), head: side(false) };
}

const changes: [Change, string][] = [
  ["added", "added"],
  ["removed", "removed"],
  ["more", "more"],
  ["less", "less"],
  ["same", "within the error"],
];

/** Describes the change of the total. If normalised, there is none: the base is scaled to the total of the head. */
export function changeText(app: App): ComponentChildren {
  const tree = app.model.tree(app.state);
  const [head, base] = [tree.total[0]![0]!, tree.total[1]![0]!];
  const { scale } = app.model.values(app.state);
  if (app.state.normalise && base > 0) {
    return (
      <>
        Base scaled by <b>{Number(scale.toPrecision(3))}</b>, from {valueText(app, base / scale)} to {valueText(app, base)}: what differs is the share of the whole.
      </>
    );
  }
  const error = 1.96 * Math.sqrt(tree.total[2]![0]!);
  if (head === base) return <b>No change</b>;
  return (
    <>
      <b>{signedText(app, head - base)}</b>
      {error > 0 && <> ± {valueText(app, error)}</>}: from {valueText(app, base)} to {valueText(app, head)}
      {base > 0 && (
        <>
          {" "}
          ({percentText(head - base, base)} {head < base ? "less" : "more"})
        </>
      )}
      {Math.abs(head - base) <= error && ", within the sampling error"}.
    </>
  );
}

export function CompareView({ app }: { app: App }) {
  const { model, state } = app;
  const shown = new Set(changes.map(([change]) => change).filter((change) => !state.unchanged.includes(change)));
  if (state.compare === null) {
    const possible = model.baseHas(state) || model.moments(state).length > 1 || [...model.labelValues].some(([key, texts]) => key !== "bytes" && texts.length > 1);
    return (
      <section class="view" aria-label="Compare">
        {possible && <CompareControls app={app} />}
        <div class="empty" role="status">
          <p>
            <b>{possible ? "Choose what to compare." : "There is nothing to compare in this report."}</b>
          </p>
          <p>
            Two sets of files: <code>holdfast html --base monday/ tuesday/</code>. Two moments: a report with several snapshots. Two values of a
            label, such as two kinds of lock.
          </p>
        </div>
      </section>
    );
  }
  const matches = model.matches(state.search);
  const rows = model
    .functions(state)
    .filter((row) => matches === null || matches[row.func] === 1)
    .map((row) => ({ row, change: changeOf(row.total[0]!, row.total[1]!, row.total[2]!) }))
    .filter(({ row }) => row.total[0] !== 0 || row.total[1] !== 0);
  const count = (change: Change) => rows.filter((entry) => entry.change === change).length;
  const listed = rows
    .filter(({ change }) => shown.has(change))
    .sort((a, b) => Math.abs(b.row.total[0]! - b.row.total[1]!) - Math.abs(a.row.total[0]! - a.row.total[1]!));
  return (
    <section class="view scroll" aria-label="Compare" tabIndex={0}>
      <CompareControls app={app} />
      <p class="lead">{changeText(app)}</p>
      <div class="chips" role="group" aria-label="Kinds of change">
        {changes.map(([change, text]) => (
          <button
            key={change}
            class={`chip ${change}`}
            aria-pressed={shown.has(change)}
            onClick={() => {
              app.set({ unchanged: shown.has(change) ? [...state.unchanged, change] : state.unchanged.filter((other) => other !== change) });
            }}
          >
            {count(change)} {text}
          </button>
        ))}
      </div>
      <table class="data" data-testid="compare-table">
        <TableHead
          columns={[number("Base"), number("Head"), number("Change of total"), number("± (95 %)"), number("Change of self"), "Function"]}
        />
        <tbody>
          {listed.slice(0, 300).map(({ row, change }) => (
            <tr key={row.func} data-fn={nameOf(app, row.func)}>
              <td class="num">{valueText(app, row.total[1]!)}</td>
              <td class="num">{valueText(app, row.total[0]!)}</td>
              <td class={`num change ${change}`}>{signedText(app, row.total[0]! - row.total[1]!)}</td>
              <td class="num muted">{valueText(app, 1.96 * Math.sqrt(row.total[2]!))}</td>
              <td class="num">{signedText(app, row.self[0]! - row.self[1]!)}</td>
              <td class="name">
                <FunctionName app={app} func={row.func} />
                <span class={`flag ${change}`}>{changes.find(([key]) => key === change)![1]}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {listed.length === 0 && <p class="empty">No function changed by more than the sampling error.</p>}
    </section>
  );
}
