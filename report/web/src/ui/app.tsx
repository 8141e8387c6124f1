// The page: its state and history, its frame (head, timeline, views, inspector), and the keys.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { initialState, toHash, type State } from "../core/state";
import { readAddress } from "./address";
import { Closers, Hover, type App } from "./app_api";
import { Beside } from "./beside";
import { CompareControls, CompareView } from "./compare_view";
import { FlameView } from "./flame";
import { GraphView } from "./graph_view";
import { Head } from "./head";
import { About, Help } from "./dialogs";
import { Inspector } from "./inspector";
import { onKey, type Page } from "./keys";
import { LeaksView } from "./leaks_view";
import { LocksView } from "./locks_view";
import type { Model } from "./model";
import { SandwichView } from "./sandwich";
import { SourceView } from "./source_view";
import { Summary } from "./summary";
import { BottomUpView, FunctionsView, TopDownView } from "./tables";
import { Timeline } from "./timeline";
import { Tools } from "./tools";

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

export function Root({ model, files, title }: { model: Model; files: EmbeddedFile[]; title: string }) {
  const initial = useMemo<State>(
    () =>
      model.hasBase ? { ...initialState, compare: { type: "files" }, colour: "diff" } : { ...initialState, colour: model.usualColour() },
    [],
  );
  const first = useMemo(() => readAddress(location.hash, model, initial), []);
  const [state, setState] = useState<State>(first.state);
  const [missing, setMissing] = useState<string[]>(first.missing);
  const [theme, setTheme] = useState(stored);
  const [note, setNote] = useState("");
  const [dialog, setDialog] = useState<"" | "help" | "about" | "download">("");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  const search = useRef<HTMLInputElement>(null);
  const shared = useMemo(() => ({ hover: new Hover(), closers: new Closers(), cursor: { func: -1 } }), []);
  const dark = theme === "" ? systemDark : theme === "dark";
  const latest = useRef(state);
  latest.current = state;

  const set = useCallback((change: Partial<State>, quietly = false) => {
    const next = { ...latest.current, ...change };
    const hash = "#" + toHash(next, model.names, initial);
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
    const read = () => {
      const address = readAddress(location.hash, model, initial);
      setState(address.state);
      setMissing(address.missing);
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
  const app: App = { model, state: shown, initial, dark, set, say: setNote, ...shared };
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
      if (dialog === "") return shared.closers.close();
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
  const isFlame = state.view === "flame";
  return (
    <>
      <Head app={app} title={title} page={page} search={search} />
      <main>
        {missing.length > 0 && (
          <p class="missing" role="alert">
            <span>Not in this report, so left out of what the address asks for: {missing.join("; ")}.</span>
            <button class="icon" aria-label="Close" onClick={() => setMissing([])}>
              ×
            </button>
          </p>
        )}
        <Summary app={app} />
        <Timeline app={app} />
        <Tools app={app} />
        <div class={`stage ${hasSideBySide ? "" : "alone"} ${isFlame ? "flame" : ""}`}>
          <div class="stage-view" role="tabpanel" id="view" aria-labelledby={`tab-${state.view}`}>
            {isAlone && <p class="view-options muted">The base has no values of this kind, so nothing is compared here.</p>}
            {shown.compare !== null && state.view !== "compare" && <CompareControls app={app} />}
            <ViewOf app={app} />
          </div>
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
