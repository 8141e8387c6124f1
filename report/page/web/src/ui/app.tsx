// The page: its state and history, its frame (head, timeline, views, inspector), and the keys.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Report } from "../core/data";
import { carried, comparesAs, initialState, toHash, type State } from "../core/state";
import { readAddress } from "./address";
import { Closers, Hover, type App } from "./app_api";
import { Beside } from "./beside";
import { CompareControls, CompareView } from "./views/compare_view";
import { FlameView } from "./views/flame_view";
import { GraphView } from "./graph_view";
import { Head } from "./head";
import { About, Dialog, Help } from "./dialogs";
import { Inspector, Sheet } from "./inspector";
import { keptPage } from "./live/keep";
import type { Live } from "./live/feed";
import { LiveBar, WaitingNow } from "./live/live_bar";
import { onKey, type Page } from "./keys";
import { usePrinted } from "./media";
import { kindTitle } from "../core/metrics";
import { LeaksView } from "./views/leaks_view";
import { LocksView } from "./views/locks_view";
import { MemoryView } from "./views/memory_view";
import { Model } from "./model";
import { SandwichView } from "./sandwich";
import { Splitter } from "./splitter";
import { SourceView } from "./views/source_view";
import { Deadlocks, Summary } from "./summary";
import { BottomUpView, FunctionsView, TopDownView } from "./tables";
import { Timeline } from "./timeline";
import { Tools } from "./tools";
import { Work } from "./work";

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

/** For a live page. */
export interface LivePage {
  live: Live;
  blank: HTMLElement; // the page as it was loaded, to be saved as a file
  onReport: (take: (report: Report) => void) => void;
}

export function Root({ model: firstModel, files, title, live = null }: { model: Model; files: EmbeddedFile[]; title: string; live?: LivePage | null }) {
  const [model, setModel] = useState(firstModel);
  const models = useRef(firstModel); // the current model
  const initial = useMemo<State>(
    () =>
      model.hasBase ? { ...initialState, compare: { type: "files" } } : initialState,
    [],
  );
  // The state for an empty address. Any other address starts from `initial`, so that it means the same in every report.
  const opening = useMemo<State>(() => (model.report.opens?.view === "locks" ? { ...initial, view: "locks", metric: "block/delay" } : initial), []);
  const stateAt = (address: string, of: Model) => (/^#?$/.test(address) ? { state: opening, missing: [] } : readAddress(address, of, initial));
  const addressOf = (shown: State) => {
    const names = models.current.names;
    const address = toHash(shown, names, initial);
    if (opening === initial) return address;
    return address === toHash(opening, names, initial) ? "" : address || "view=flame";
  };
  const first = useMemo(() => stateAt(location.hash || (document.body.dataset["address"] ?? ""), model), []);
  const [state, setState] = useState<State>(first.state);
  const [missing, setMissing] = useState<string[]>(first.missing);
  const [theme, setTheme] = useState(stored);
  const [note, setNote] = useState("");
  const [dialog, setDialog] = useState<"" | "help" | "about" | "download">("");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  const search = useRef<HTMLInputElement>(null);
  const shared = useMemo(() => ({ hover: new Hover(), closers: new Closers(), cursor: { func: -1 } }), []);
  const isPrinted = usePrinted();
  const dark = !isPrinted && (theme === "" ? systemDark : theme === "dark"); // paper is white
  const latest = useRef(state); // shown
  const wanted = useRef(state); // requested; differs from `latest` only while something slow is computed

  const [working, setWorking] = useState(false);
  const work = useMemo(() => new Work(setWorking), []);
  const alone = (next: State): State => {
    // If the base has no such kind, the metric is shown without a comparison; the next one may be compared again.
    const isAlone = next.compare?.type === "files" && !models.current.baseHas(next);
    return isAlone ? { ...next, compare: null } : next;
  };
  /** Shows a state once everything that it needs is computed; applies `then` at the same time. */
  const show = useCallback((next: State, then: () => void) => {
    wanted.current = next;
    const of = models.current;
    const commit = () => {
      // A new moment with other numbers may have arrived meanwhile.
      wanted.current = latest.current = carried(next, of.names, models.current.names);
      setState(latest.current);
      then();
    };
    if (of.isLarge) work.start(of.prepare(of.sided(alone(next))), commit);
    else commit();
  }, []);
  const quiet = useMemo(() => new Work(() => {}), []);
  useEffect(() => {
    live?.onReport((report) => {
      const next = new Model(report);
      const commit = () => {
        const before = models.current;
        models.current = next;
        if (before.report.names !== report.names) {
          latest.current = carried(latest.current, before.names, next.names);
          wanted.current = carried(wanted.current, before.names, next.names);
          shared.cursor.func = -1;
          shared.hover.set(null);
        }
        setModel(next);
        setState(latest.current);
      };
      if (next.isLarge) quiet.start(next.prepare(carried(latest.current, models.current.names, next.names)), commit);
      else commit();
    });
  }, []);
  const stop = () => {
    if (!work.stop()) return false;
    wanted.current = latest.current;
    setNote("Stopped. The page shows what it showed before");
    return true;
  };
  const set = useCallback((change: Partial<State>, replace = false) => {
    const next = { ...wanted.current, ...change };
    const hash = "#" + addressOf(next);
    show(next, () => {
      if (hash === location.hash || (hash === "#" && location.hash === "")) return;
      try {
        if (replace) history.replaceState(null, "", hash);
        else history.pushState(null, "", hash);
      } catch {
        // Some mail viewers show pages without an address: the page works, without Back.
      }
    });
  }, []);
  useEffect(() => {
    const read = () => {
      const address = stateAt(location.hash, models.current);
      show(address.state, () => setMissing(address.missing));
    };
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
  useLayoutEffect(() => {
    document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  }, [dark]);
  useEffect(() => {
    if (note === "") return;
    const timer = setTimeout(() => setNote(""), 2500);
    return () => clearTimeout(timer);
  }, [note]);

  const keep = () => {
    if (live === null) return;
    const { report } = models.current;
    const at = new Date(live.live.moments.ms).toISOString().slice(0, 19).replaceAll(":", "-");
    keptPage(live.blank, report, toHash(latest.current, models.current.names, initial) || "view=flame").then(
      (html) => download({ name: `${title.replace(/[^\w.-]+/g, "_")}.${at}.html`, bytes: () => new TextEncoder().encode(html) }),
      (error: unknown) => setNote(`Not kept: ${String(error)}`),
    );
  };

  const shown = alone(state);
  const isAlone = shown.compare !== state.compare;
  const app: App = { model, state: model.sided(shown), compared: shown, initial, dark, live: live !== null, set, say: setNote, ...shared };
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
        // Then it is not stored.
      }
    },
    download: () => {
      if (live !== null) return setDialog(dialog === "download" ? "" : "download");
      if (files.length === 0) setNote("This report does not contain the profiles: they are too large, or --embed 0 left them out");
      else if (files.length === 1) download(files[0]!);
      else setDialog(dialog === "download" ? "" : "download");
    },
    close: () => {
      if (stop()) return true;
      if (dialog !== "") return setDialog(""), true;
      if (shared.closers.close()) return true;
      if (missing.length > 0) return setMissing([]), true;
      return false;
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

  const hasSideBySide = !["locks", "leaks", "memory", "graph"].includes(state.view) || state.selected >= 0;
  const isFlame = state.view === "flame";
  return (
    <>
      <Head app={app} title={title} page={page} search={search} />
      <main>
        {missing.length > 0 && (
          <p class="missing" role="alert">
            <span>The address asks for more than this report has. Left out: {missing.join("; ")}.</span>
            <button class="icon" aria-label="Close" onClick={() => setMissing([])}>
              ×
            </button>
          </p>
        )}
        {live !== null && <LiveBar app={app} live={live.live} keep={keep} />}
        {model.report.waiting !== undefined || live !== null ? <WaitingNow app={app} live={live?.live ?? null} /> : <Deadlocks app={app} />}
        <div class="overview">
          <Summary app={app} />
          <Timeline app={app} />
        </div>
        <Tools app={app} />
        <div class={`stage ${hasSideBySide ? "" : "alone"} ${isFlame ? "flame" : ""}`}>
          <div class="stage-view" role="tabpanel" id="view" aria-labelledby={`tab-${state.view}`}>
            {isAlone && <p class="view-options muted">The base has no values of this kind, so this shows no difference.</p>}
            {shown.compare !== null && state.view !== "compare" && comparesAs[state.view] !== "head" && <CompareControls app={app} />}
            <ViewOf app={app} />
          </div>
          {hasSideBySide && <Splitter />}
          {hasSideBySide && (
            <aside class="side" aria-label="Inspector">
              <div class="inspector" tabIndex={0} role="group" aria-label="Details">
                <Inspector app={app} />
              </div>
              {isFlame && <Beside app={app} />}
            </aside>
          )}
        </div>
      </main>
      {isFlame && state.selected >= 0 && <Sheet app={app} />}
      {working && (
        <div class="working" role="status">
          <i aria-hidden="true" /> Working on {model.report.parent.length.toLocaleString("en")} stacks …
          <button onClick={stop}>Stop</button>
        </div>
      )}
      <div class={`note ${note === "" ? "" : "shown"}`} role="status" aria-live="polite">
        {note}
      </div>
      {dialog === "help" && <Help close={() => setDialog("")} />}
      {dialog === "about" && <About app={app} close={() => setDialog("")} />}
      {dialog === "download" && (
        <Dialog title="Download" close={() => setDialog("")} small>
          <p>{live === null ? "The original profiles, for any pprof tool." : "The current profiles, for any pprof tool."}</p>
          <ul class="plain">
            {live !== null &&
              [...new Set(model.report.series.map(({ kind }) => kind))].map((kind) => (
                <li key={kind}>
                  <a href={`${live.live.base}debug/pprof/${kind}`} download={`${title.replace(/[^\w.-]+/g, "_")}.${kind}.pb.gz`}>
                    {kindTitle(kind)}
                  </a>
                </li>
              ))}
            {files.map((file) => (
              <li key={file.name}>
                <button onClick={() => download(file)}>{file.name}</button>
              </li>
            ))}
          </ul>
        </Dialog>
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
    case "memory":
      return <MemoryView app={app} />;
    case "compare":
      return <CompareView app={app} />;
  }
}
