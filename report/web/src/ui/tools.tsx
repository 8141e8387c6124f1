// What narrows and colours everything that is shown: views as tabs, the search, filters and labels.
import { useEffect, useMemo, useState } from "preact/hooks";
import { patternError } from "../core/match";
import { colourModes, views, type State } from "../core/state";
import { matchedTotal } from "../core/tree";
import { addChip, chipHelp, chipText, percentText, valueText, type App } from "./app_api";
import { viewTitles } from "./keys";

export function Tools({ app, search }: { app: App; search: preact.RefObject<HTMLInputElement> }) {
  const { model, state, set } = app;
  const [text, setText] = useState(state.search);
  // Whoever types is ahead of the state: what was typed meanwhile must not be taken back.
  useEffect(() => {
    if (document.activeElement !== search.current) setText(state.search);
  }, [state.search]);
  const matches = model.matches(state.search);
  const tree = model.flame(state);
  const covered = matches === null ? 0 : matchedTotal(tree, matches);
  const found = useMemo(() => {
    if (matches === null) return 0;
    let count = 0;
    for (const row of model.functions(state)) if (matches[row.func] === 1) ++count;
    return count;
  }, [matches, tree]);
  const labels = [...model.labelValues].filter(([key, texts]) => key !== "bytes" && texts.length > 1);
  const usable = text !== "" && patternError(text) === "";
  return (
    <>
      <div class="tools">
        <div class="tabs" role="tablist" aria-label="Views">
          {views.map((view, i) => (
            <button
              key={view}
              id={`tab-${view}`}
              role="tab"
              aria-selected={state.view === view}
              aria-controls="view"
              tabIndex={state.view === view ? 0 : -1}
              title={`${viewTitles[view]} (${(i + 1) % 10})`}
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
      </div>
      <div class="tools second">
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
            aria-describedby="pattern-error"
            onBlur={() => setText(state.search)}
            onInput={(event) => {
              setText(event.currentTarget.value);
              set({ search: event.currentTarget.value }, true);
            }}
          />
          <span id="pattern-error" class="warn" role="status">
            {patternError(text) !== "" && `Not an expression: ${patternError(text)}. Nothing is searched.`}
          </span>
          {matches !== null && (
            <output data-testid="found">
              {found === 0 ? "no match" : `${found} ${found === 1 ? "function" : "functions"}, ${valueText(app, covered)}, ${percentText(covered, tree.total[0]![0]!)}`}
            </output>
          )}
          {(["focus", "hide", "from"] as const).map((type) => (
            <button
              key={type}
              type="button"
              class="quiet"
              disabled={!usable}
              title={`Keeps what was searched as a filter: ${chipHelp[type]}`}
              onClick={() => {
                addChip(app, type, text);
                app.set({ search: "" }, true);
              }}
            >
              {{ focus: "Focus", hide: "Hide", from: "Show from" }[type]}
            </button>
          ))}
        </form>
        <div class="options">
          {labels.length > 0 && (
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
                      {value}
                    </option>
                  ))}
                </optgroup>
              ))}
            </select>
          )}
          <label>
            colour{" "}
            <select value={state.colour} onChange={(event) => set({ colour: event.currentTarget.value as State["colour"] })} data-testid="colour">
              {colourModes.map((mode) => (
                <option key={mode} value={mode} disabled={mode === "diff" && state.compare === null}>
                  by {mode}
                </option>
              ))}
            </select>
          </label>
          <label title="libc, the loader and libstdc++ go into their caller (s)">
            <input type="checkbox" checked={state.fold} onChange={() => set({ fold: !state.fold, zoom: [] })} /> fold system
          </label>
          <label title="Inlined functions as functions of their own (n)">
            <input type="checkbox" checked={state.inlined} onChange={() => set({ inlined: !state.inlined, zoom: [] })} /> inlined
          </label>
        </div>
      </div>
      {(state.chips.length > 0 || state.labels.length > 0) && (
        <div class="chips" role="group" aria-label="Filters" data-testid="chips">
          {state.chips.map((chip, i) => (
            <button
              key={`${chip.type} ${chip.pattern}`}
              class="chip"
              title={`${chipHelp[chip.type]}. Click to remove.`}
              aria-label={`Remove the filter: ${chipText[chip.type]} ${chip.pattern}`}
              onClick={() => set({ chips: state.chips.filter((_, k) => k !== i), zoom: [] })}
            >
              <span class="chip-type">{chipText[chip.type]}</span> <span class="chip-text">{chip.pattern.replace(/^=/, "")}</span> ×
            </button>
          ))}
          {state.labels.map((label, i) => (
            <button
              key={`${label.key} ${label.text}`}
              class="chip"
              aria-label={`Remove the filter: ${label.key} ${label.text}`}
              onClick={() => set({ labels: state.labels.filter((_, k) => k !== i) })}
            >
              <span class="chip-type">{label.key}</span> {label.text} ×
            </button>
          ))}
          <button class="quiet" onClick={() => set({ chips: [], labels: [], zoom: [] })}>
            Remove all
          </button>
        </div>
      )}
    </>
  );
}
