// The page: its state and history, its frame (head, timeline, views, inspector), and the keys.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { kindTitle, metricHelp } from "../core/metrics";
import { isValidPattern } from "../core/match";
import { metricKey } from "../core/select";
import { colourModes, fromHash, initialState, toHash, views, type State } from "../core/state";
import { matchedTotal, nodeAt } from "../core/tree";
import { addChip, chipHelp, chipText, percentText, valueText, type App } from "./app_api";
import { CompareControls, CompareView } from "./compare_view";
import { FlameView } from "./flame";
import { GraphView } from "./graph_view";
import { About, Help } from "./dialogs";
import { Inspector } from "./inspector";
import { onKey, viewTitles, type Page } from "./keys";
import { LeaksView } from "./leaks_view";
import { LocksView } from "./locks_view";
import type { Model } from "./model";
import { SandwichView } from "./sandwich";
import { SourceView } from "./source_view";
import { Summary } from "./summary";
import { BottomUpView, FunctionsView, TopDownView } from "./tables";
import { Timeline } from "./timeline";

export interface EmbeddedFile {
  name: string;
  bytes: () => Uint8Array;
}

export function download(file: EmbeddedFile): void {
  const url = URL.createObjectURL(new Blob([file.bytes() as BlobPart], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const stored = (): string => {
  try {
    return localStorage.getItem("holdfast-theme") ?? "";
  } catch {
    return "";
  }
};

/** An address may come from another report: what does not exist here is left out. */
function sensible(state: State, model: Model): State {
  const { compare } = state;
  const knows = (key: string, texts: string[]) => texts.every((text) => model.labelValues.get(key)?.includes(text) === true);
  const possible =
    compare === null ||
    (compare.type === "files" ? model.hasBase : compare.type === "time" || knows(compare.key, [compare.base, compare.head]));
  return {
    ...state,
    compare: possible ? compare : null,
    selected: state.selected < model.report.names.length ? state.selected : -1,
    process: model.report.series.some((series) => series.process === state.process) ? state.process : "",
    labels: state.labels.filter(({ key, text }) => knows(key, [text])),
  };
}

export function Root({ model, files, title }: { model: Model; files: EmbeddedFile[]; title: string }) {
  const initial = useMemo<State>(
    () =>
      model.hasBase ? { ...initialState, compare: { type: "files" }, colour: "diff" } : { ...initialState, colour: model.usualColour() },
    [],
  );
  const [state, setState] = useState<State>(() => sensible(fromHash(location.hash, initial), model));
  const [theme, setTheme] = useState(stored);
  const [note, setNote] = useState("");
  const [dialog, setDialog] = useState<"" | "help" | "about" | "download">("");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  const search = useRef<HTMLInputElement>(null);
  const dark = theme === "" ? systemDark : theme === "dark";
  const latest = useRef(state);
  latest.current = state;

  const set = useCallback((change: Partial<State>, quietly = false) => {
    const next = { ...latest.current, ...change };
    const hash = "#" + toHash(next, initial);
    latest.current = next;
    setState(next);
    if (hash === location.hash || (hash === "#" && location.hash === "")) return;
    try {
      if (quietly) history.replaceState(null, "", hash);
      else history.pushState(null, "", hash);
    } catch {
      // Some viewers of mail show a page that has no address of its own: it works, without Back.
    }
  }, []);
  useEffect(() => {
    const read = () => setState(sensible(fromHash(location.hash, initial), model));
    const themed = () => setSystemDark(prefersDark.matches);
    window.addEventListener("popstate", read);
    window.addEventListener("hashchange", read);
    prefersDark.addEventListener("change", themed);
    return () => {
      window.removeEventListener("popstate", read);
      window.removeEventListener("hashchange", read);
      prefersDark.removeEventListener("change", themed);
    };
  }, []);
  useEffect(() => {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  }, [dark]);
  useEffect(() => {
    if (note === "") return;
    const timer = setTimeout(() => setNote(""), 2500);
    return () => clearTimeout(timer);
  }, [note]);

  // With a base of other kinds this metric stands alone; the next one may be compared again.
  const isAlone = state.compare?.type === "files" && !model.baseHas(state);
  const shown: State = isAlone ? { ...state, compare: null, colour: state.colour === "diff" ? model.usualColour() : state.colour } : state;
  const tree = model.flame(shown);
  const app: App = { model, state: shown, initial, dark, set, say: setNote, node: nodeAt(tree, state.zoom) };
  const page: Page = {
    focusSearch: () => search.current?.select(),
    toggleHelp: () => setDialog(dialog === "help" ? "" : "help"),
    toggleAbout: () => setDialog(dialog === "about" ? "" : "about"),
    toggleTheme: () => {
      const next = dark ? "light" : "dark";
      setTheme(next);
      try {
        localStorage.setItem("holdfast-theme", next);
      } catch {
        // Not kept then.
      }
    },
    download: () => {
      if (files.length === 0) setNote("The profiles are too large to be in this report, or were left out");
      else if (files.length === 1) download(files[0]!);
      else setDialog(dialog === "download" ? "" : "download");
    },
    close: () => {
      if (dialog === "") return false;
      setDialog("");
      return true;
    },
  };
  const handlers = useRef({ app, page });
  handlers.current = { app, page };
  useEffect(() => {
    const listen = (event: KeyboardEvent) => onKey(event, handlers.current.app, handlers.current.page);
    window.addEventListener("keydown", listen);
    window.holdfastReady = performance.now();
    return () => window.removeEventListener("keydown", listen);
  }, []);

  const hasSideBySide = !["locks", "leaks", "graph"].includes(state.view) || state.selected >= 0;
  return (
    <>
      <Head app={app} title={title} page={page} />
      <main>
        <Summary app={app} />
        <Timeline app={app} />
        <Tools app={app} search={search} />
        <div class={`stage ${hasSideBySide ? "" : "alone"}`}>
          <div class="stage-view" role="tabpanel" id="view" aria-labelledby={`tab-${state.view}`}>
            {isAlone && <p class="view-options muted">The base has no values of this kind, so nothing is compared here.</p>}
            {shown.compare !== null && state.view !== "compare" && <CompareControls app={app} />}
            <ViewOf app={app} />
          </div>
          {hasSideBySide && (
            <aside class="inspector" aria-label="Inspector">
              <Inspector app={app} />
            </aside>
          )}
        </div>
      </main>
      <div class={`note ${note === "" ? "" : "shown"}`} role="status" aria-live="polite">
        {note}
      </div>
      {dialog === "help" && <Help close={() => setDialog("")} />}
      {dialog === "about" && <About app={app} close={() => setDialog("")} />}
      {dialog === "download" && (
        <div class="dialog small" role="dialog" aria-label="Download">
          <header>
            <h2>Download</h2>
            <button class="icon" aria-label="Close" onClick={() => setDialog("")}>
              ×
            </button>
          </header>
          <p>The profiles as they were written, for any pprof tool.</p>
          <ul class="plain">
            {files.map((file) => (
              <li key={file.name}>
                <button onClick={() => download(file)}>{file.name}</button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

function ViewOf({ app }: { app: App }) {
  switch (app.state.view) {
    case "flame":
      return <FlameView app={app} />;
    case "functions":
      return <FunctionsView app={app} />;
    case "topdown":
      return <TopDownView app={app} />;
    case "bottomup":
      return <BottomUpView app={app} />;
    case "sandwich":
      return <SandwichView app={app} />;
    case "graph":
      return <GraphView app={app} />;
    case "source":
      return <SourceView app={app} />;
    case "leaks":
      return <LeaksView app={app} />;
    case "locks":
      return <LocksView app={app} />;
    case "compare":
      return <CompareView app={app} />;
  }
}

function Head({ app, title, page }: { app: App; title: string; page: Page }) {
  const { model, state, set } = app;
  const metric = model.metric(state);
  // The largest first, with what each holds of the metric.
  const processes = new Map<string, { text: string; total: number }>();
  for (const series of model.report.series) {
    if (series.base) continue;
    const newest = series.snapshots[series.snapshots.length - 1]!;
    const known = processes.get(series.process) ?? {
      text: `${series.program || newest.file}${series.pid === "" ? "" : ` (${series.pid})`}`,
      total: 0,
    };
    const m = series.kind === metric.kind ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
    if (m >= 0) known.total += newest.totals[m]!;
    processes.set(series.process, known);
  }
  const bySize = [...processes].sort((a, b) => b[1].total - a[1].total);
  const kinds = [...new Set(model.metrics.map((m) => m.kind))];
  return (
    <header class="head">
      <div class="brand" title="Made by holdfast html">
        <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
          <rect x="1" y="2" width="18" height="4.4" rx="1" />
          <rect x="1" y="7.8" width="12" height="4.4" rx="1" />
          <rect x="1" y="13.6" width="7" height="4.4" rx="1" />
        </svg>
        <h1>{title}</h1>
      </div>
      <label class="metric-menu">
        <span class="visually-hidden">Metric</span>
        <select
          value={model.metricOf(state)}
          onChange={(event) => set({ metric: event.currentTarget.value })}
          title={metricHelp(metric.kind, metric.name).when}
          data-testid="metric"
        >
          {kinds.map((kind) => (
            <optgroup label={kindTitle(kind)} key={kind}>
              {model.metrics
                .filter((m) => m.kind === kind)
                .map((m) => (
                  <option key={m.name} value={metricKey(m)} title={metricHelp(m.kind, m.name).when}>
                    {metricHelp(m.kind, m.name).title}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      <p class="metric-when" title={metricHelp(metric.kind, metric.name).when}>
        {metricHelp(metric.kind, metric.name).when}
      </p>
      {processes.size > 1 && (
        <label>
          <span class="visually-hidden">Process</span>
          <select value={state.process} onChange={(event) => set({ process: event.currentTarget.value, from: -1, to: -1 })} data-testid="process">
            <option value="">all {processes.size} processes</option>
            {bySize.map(([process, { text, total }]) => (
              <option key={process} value={process}>
                {text} · {valueText(app, total)}
              </option>
            ))}
          </select>
        </label>
      )}
      <nav aria-label="Page">
        <button class="icon" onClick={page.download} title="Download the pprof (d)" aria-label="Download the pprof">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleAbout} title="About this profile (a)" aria-label="About this profile">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6.25" />
            <path d="M8 7.2v4M8 4.6v.2" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleTheme} title="Dark or light (t)" aria-label="Dark or light">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleHelp} title="Keys and terms (?)" aria-label="Keys and terms">
          <b>?</b>
        </button>
      </nav>
    </header>
  );
}

function Tools({ app, search }: { app: App; search: preact.RefObject<HTMLInputElement> }) {
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
  const usable = text !== "";
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
            aria-invalid={!isValidPattern(text)}
            onBlur={() => setText(state.search)}
            onInput={(event) => {
              setText(event.currentTarget.value);
              set({ search: event.currentTarget.value }, true);
            }}
          />
          {state.search !== "" && (
            <output data-testid="found">
              {found === 0 ? "no match" : `${found} ${found === 1 ? "function" : "functions"}, ${valueText(app, covered)}, ${percentText(covered, tree.total[0]![0]!)}`}
            </output>
          )}
          {(["focus", "only", "hide", "from"] as const).map((type) => (
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
              {{ focus: "Focus", only: "Show only", hide: "Hide", from: "Show from" }[type]}
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
