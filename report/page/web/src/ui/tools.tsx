// Controls that narrow and colour the view: search, tabs, drawing options, filters and labels.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren, RefObject } from "preact";
import { labelKeysOf } from "../core/label_keys";
import { patternError } from "../core/match";
import { isProcessKey } from "../core/select";
import { colourModes, views, type State, type View } from "../core/state";
import { matchedTotal } from "../core/tree";
import { formatValue } from "../core/units";
import { addChip, chipHelp, chipText, percentText, valueText, type App } from "./app_api";
import { colouring } from "./colours";
import { viewTitles } from "./keys";
import { Sides } from "./views/compare_view";

export function SearchBox({ app, search }: { app: App; search: RefObject<HTMLInputElement> }) {
  const { state, set } = app;
  const [text, setText] = useState(state.search);
  // Typing may be faster than the state: what was typed meanwhile must not be lost.
  useEffect(() => {
    if (document.activeElement !== search.current) setText(state.search);
  }, [state.search]);
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        set({ search: text });
      }}
    >
      <input
        ref={search}
        type="search"
        value={text}
        placeholder="Search functions   /"
        aria-label="Search functions: part of a name, =name, or /expression/"
        title="Part of a name, =whole name, or /regular expression/"
        aria-invalid={patternError(text) !== ""}
        aria-describedby="found"
        onInput={(event) => {
          setText(event.currentTarget.value);
          set({ search: event.currentTarget.value }, true);
        }}
      />
    </form>
  );
}

/** The result of the search, and the button that makes it a filter. Only during a search. */
function Found({ app }: { app: App }) {
  const { model, state } = app;
  const error = patternError(state.search);
  const matches = model.matches(state.search);
  const tree = model.tree(state);
  const [found, covered] = useMemo(() => {
    if (matches === null) return [0, 0];
    return [model.functions(state).filter((row) => matches[row.func] === 1).length, matchedTotal(tree, matches)];
  }, [matches, tree]);
  if (state.search === "") return null;
  return (
    <div class="found" id="found" role="group" aria-label="Found">
      {error !== "" && (
        <span id="pattern-error" class="warn" role="status">
          Not a valid expression: {error}. Nothing is searched.
        </span>
      )}
      {matches !== null && (
        <output data-testid="found">
          {found === 0 ? "no match" : `${found} ${found === 1 ? "function" : "functions"}, ${valueText(app, covered)}, ${percentText(covered, model.whole(state))}`}
        </output>
      )}
      {(["focus", "hide", "from"] as const).map((type) => (
        <button
          key={type}
          type="button"
          disabled={error !== ""}
          title={`Turn the search into a filter: ${chipHelp[type]}`}
          onClick={() => {
            addChip(app, type, state.search);
            app.set({ search: "" }, true);
          }}
        >
          {{ focus: "Focus", hide: "Hide", from: "Show from" }[type]}
        </button>
      ))}
    </div>
  );
}

function Tabs({ app }: { app: App }) {
  const { state, set } = app;
  const list = useRef<HTMLDivElement>(null);
  // The tab of the view is in sight, also where there is room for few.
  useLayoutEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>("[aria-selected=true]");
    if (list.current === null || tab === null || tab === undefined) return;
    list.current.scrollLeft = tab.offsetLeft - list.current.offsetLeft - (list.current.clientWidth - tab.offsetWidth) / 2;
  }, [state.view]);
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list}>
      {views.map((view, i) => (
        <button
          key={view}
          id={`tab-${view}`}
          role="tab"
          aria-selected={state.view === view}
          aria-controls="view"
          tabIndex={state.view === view ? 0 : -1}
          title={`${viewTitles[view]} (${i < 10 ? (i + 1) % 10 : "A"})`}
          onClick={() => set({ view })}
          onKeyDown={(event) => {
            const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
            if (by === 0) return;
            const next = views[(i + by + views.length) % views.length]!;
            set({ view: next });
            document.getElementById(`tab-${next}`)?.focus();
          }}
        >
          {viewTitles[view]}
        </button>
      ))}
    </div>
  );
}

/** How the flame graph is drawn: in a list that opens, as it is chosen once. */
function FlameOptions({ app }: { app: App }) {
  const { model, state, set } = app;
  const details = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = () => details.current?.open === true && ((details.current.open = false), true);
    const outside = (event: PointerEvent) => details.current?.contains(event.target as Node) !== true && close();
    const forget = app.closers.add("options", close);
    window.addEventListener("pointerdown", outside, true);
    return () => {
      forget();
      window.removeEventListener("pointerdown", outside, true);
    };
  }, [app.closers]);
  const toggle = (on: boolean, text: string, title: string, key: string, change: Partial<State>) => (
    <button class="toggle" aria-pressed={on} title={title} onClick={() => set(change)}>
      {text} <kbd>{key}</kbd>
    </button>
  );
  return (
    <details class="drawing-options" ref={details}>
      <summary>Drawing</summary>
      <div class="panel">
        {toggle(state.flame, state.flame ? "Flame" : "Icicle", "Root below or above", "i", { flame: !state.flame })}
        {toggle(state.inverted, "Callers below", "Show the holders first, then their callers", "b", { inverted: !state.inverted, zoom: [], pinned: [] })}
        {toggle(state.byValue, "Largest first", "Largest first, or by name so that two runs look alike", "v", { byValue: !state.byValue })}
        {toggle(state.runs, "Fold runs", "Show frames with one callee and no self value as one box if there is no room for all rows", "z", { runs: !state.runs })}
        {!(state.fold && model.hasPlumbing) && toggle(state.top, "Fold top", "Merge outermost system frames into the root", "T", { top: !state.top })}
        <label>
          colour{" "}
          <select value={model.colour(state)} onChange={(event) => set({ colour: event.currentTarget.value as State["colour"] })} data-testid="colour">
            {colourModes.map((mode) => (
              <option key={mode} value={mode} disabled={mode === "diff" && state.compare === null}>
                by {mode}
              </option>
            ))}
          </select>
        </label>
      </div>
    </details>
  );
}

/** What the colours of the flame graph mean. */
export function Legend({ app }: { app: App }) {
  const { legend } = colouring(app.model, app.state, app.model.flame(app.state), app.dark);
  if (legend.length === 0) return null;
  return (
    <div class="legend" role="group" aria-label="Colours">
      {legend.map(({ colour, text }) => (
        <span key={text} title={text}>
          <i style={{ background: colour }} />
          {text}
        </span>
      ))}
    </div>
  );
}

function Labels({ app }: { app: App }) {
  const { model, state, set } = app;
  const shown = labelKeysOf(model.report, model.metric(state).kind);
  const labels = [...model.labelValues].filter(([key, texts]) => key !== "bytes" && texts.length > 1 && (isProcessKey(key) || shown.has(key)));
  if (labels.length === 0) return null;
  return (
    <select
      value=""
      aria-label="Filter by label"
      data-testid="label"
      onChange={(event) => {
        const [key, value] = JSON.parse(event.currentTarget.value) as [string, string];
        event.currentTarget.value = "";
        if (!state.labels.some((l) => l.key === key && l.text === value)) set({ labels: [...state.labels, { key, text: value }] });
      }}
    >
      <option value="">label…</option>
      {labels.map(([key, texts]) => (
        <optgroup key={key} label={key}>
          {texts.slice(0, 500).map((value) => (
            <option key={value} value={JSON.stringify([key, value])}>
              {key === "age" ? `up to ${formatValue(Number(value), "nanoseconds")}` : value}
            </option>
          ))}
        </optgroup>
      ))}
    </select>
  );
}

/** The pattern of a filter as people read it. */
function patternText(app: App, pattern: string): string {
  const func = pattern.startsWith("=") ? app.model.names.find(pattern.slice(1)) : -1;
  return func < 0 ? pattern.replace(/^=/, "") : app.model.shortName(func);
}

function Chips({ app, children }: { app: App; children: ComponentChildren }) {
  const { state, set } = app;
  const has = state.chips.length > 0 || state.labels.length > 0;
  if (!has && state.search === "") return null;
  return (
    <div class="chips">
      {children}
      {has && (
        <div class="chips-list" role="group" aria-label="Filters" data-testid="chips">
          {state.chips.map((chip, i) => (
            <button
              key={`${chip.type} ${chip.pattern}`}
              class="chip"
              title={`${chip.pattern.replace(/^=/, "")}: ${chipHelp[chip.type]}. Click to remove.`}
              aria-label={`Remove the filter ${chipText[chip.type]} ${patternText(app, chip.pattern)} ×`}
              onClick={() => set({ chips: state.chips.filter((_, k) => k !== i), zoom: [], pinned: [] })}
            >
              <span class="chip-type">{chipText[chip.type]}</span> <span class="chip-text"><bdi dir="ltr">{patternText(app, chip.pattern)}</bdi></span> ×
            </button>
          ))}
          {state.labels.map((label, i) => (
            <button
              key={`${label.key} ${label.text}`}
              class="chip"
              aria-label={`Remove the filter ${label.key} ${label.text} ×`}
              onClick={() => set({ labels: state.labels.filter((_, k) => k !== i) })}
            >
              <span class="chip-type">{label.key}</span> {label.text} ×
            </button>
          ))}
          <button class="quiet" onClick={() => set({ chips: [], labels: [], zoom: [], pinned: [] })}>
            Remove all
          </button>
        </div>
      )}
    </div>
  );
}

/** Views that show stacks: folding, inlined functions and labels change them. */
const ofStacks: readonly View[] = ["flame", "functions", "topdown", "bottomup", "sandwich", "graph", "source", "compare", "locks"];

export function Tools({ app }: { app: App }) {
  const { model, state, set } = app;
  const shows = ofStacks.includes(state.view);
  return (
    <>
      <div class="tools">
        <Tabs app={app} />
        <div class="options">
          <Sides app={app} />
          {state.view === "flame" && state.zoom.length > 0 && (
            <button class="quiet" onClick={() => set({ zoom: [] })} title="Show everything again (Esc)">
              Reset zoom
            </button>
          )}
          {shows && model.hasPlumbing && (
            <label title="Merge standard libraries, allocators that only forward, and locking functions into their callers (s)">
              <input type="checkbox" checked={state.fold} onChange={() => set({ fold: !state.fold, zoom: [], pinned: [] })} /> fold plumbing
            </label>
          )}
          {shows && model.hasInlined && (
            <label title="Inlined functions as functions of their own (n)">
              <input type="checkbox" checked={state.inlined} onChange={() => set({ inlined: !state.inlined, zoom: [], pinned: [] })} /> inlined
            </label>
          )}
          {shows && <Labels app={app} />}
          {state.view === "flame" && <FlameOptions app={app} />}
        </div>
      </div>
      <Chips app={app}>
        <Found app={app} />
      </Chips>
    </>
  );
}
