// Every action has a key. The page and the help both use this one list.
import { colourModes, views, type State, type View } from "../core/state";
import { metricKey } from "../core/metrics";
import { spanOf } from "../core/select";
import { copyName } from "./actions";
import { addChip, nameOf, type App } from "./app_api";

export interface Key {
  keys: string[]; // KeyboardEvent.key
  text: string;
  act: (app: App, page: Page) => void;
}

/** What the page can do in addition to changing the state. */
export interface Page {
  focusSearch: () => void;
  toggleHelp: () => void;
  toggleTheme: () => void;
  toggleAbout: () => void;
  download: () => void;
  close: () => boolean; // whether something was open
}

export const viewTitles: Record<View, string> = {
  flame: "Flame graph",
  functions: "Functions",
  topdown: "Top-down",
  bottomup: "Bottom-up",
  sandwich: "Callers & callees",
  graph: "Call graph",
  source: "Source",
  leaks: "Leaks",
  locks: "Locks",
  memory: "Memory",
  compare: "Compare",
};

/** Acts on the frame under the flame graph's cursor if it has the focus, else on the chosen frame. */
const withSelected = (act: (app: App, name: string) => void) => (app: App) => {
  const func = app.cursor.func >= 0 ? app.cursor.func : app.state.selected;
  if (func >= 0) act(app, `=${nameOf(app, func)}`);
  else app.say("Choose a function first");
};

const flip = (key: "flame" | "inverted" | "byValue" | "fold" | "inlined" | "runs" | "top" | "course" | "mean" | "normalise" | "safe") => (app: App) =>
  app.set({ [key]: !app.state[key], ...(key === "inverted" ? { zoom: [] } : {}) } as Partial<State>);

/** Moves one end of the range by one snapshot. */
const shift = (end: "from" | "to", by: number) => (app: App) => {
  const moments = app.model.moments(app.state);
  const last = moments.length - 1;
  if (last < 1) return app.say("The report has only one snapshot");
  const [from, to] = spanOf(moments, app.state);
  if (end === "to") {
    const next = Math.min(last, Math.max(0, from, to + by));
    app.set({ to: next === last ? -1 : moments[next]! });
  } else {
    const next = Math.min(to, Math.max(-1, from + by));
    app.set({ from: next < 0 ? -1 : moments[next]! });
  }
};

const nextOf = <T>(list: readonly T[], present: T, by: number): T => list[(list.indexOf(present) + by + list.length) % list.length]!;

const metricBy = (by: number) => (app: App) => {
  const keys = app.model.metricsFor(app.compared).map(metricKey);
  if (keys.length > 0) app.set({ metric: nextOf(keys, app.model.metricOf(app.state), by) });
};

export const keys: Key[] = [
  { keys: ["/"], text: "search", act: (_, page) => page.focusSearch() },
  ...views.map((view, i) => ({ keys: [i < 10 ? String((i + 1) % 10) : "A"], text: viewTitles[view], act: (app: App) => app.set({ view }) })),
  { keys: ["m"], text: "next metric", act: metricBy(1) },
  { keys: ["M"], text: "previous metric", act: metricBy(-1) },
  { keys: ["f"], text: "focus: only stacks through the chosen function", act: withSelected((app, name) => addChip(app, "focus", name)) },
  { keys: ["r"], text: "show only what is below the chosen function", act: withSelected((app, name) => addChip(app, "from", name)) },
  { keys: ["x"], text: "hide stacks that contain it", act: withSelected((app, name) => addChip(app, "hide", name)) },
  { keys: ["h"], text: "highlight it everywhere", act: withSelected((app, name) => app.set({ search: name })) },
  {
    keys: ["y"],
    text: "copy its name",
    act: withSelected((app, name) => copyName(app, name.slice(1))),
  },
  { keys: ["u"], text: "undo (Back)", act: () => history.back() },
  { keys: ["U"], text: "redo (Forward)", act: () => history.forward() },
  {
    keys: ["Escape"],
    text: "close a dialog, or reset zoom, search, choice",
    act: (app, page) => {
      if (page.close()) return;
      const { zoom, search, selected } = app.state;
      if (zoom.length > 0) app.set({ zoom: [] });
      else if (search !== "") app.set({ search: "" });
      else if (selected >= 0) app.set({ selected: -1, pinned: [] });
    },
  },
  { keys: ["Backspace"], text: "remove the last filter", act: (app) => app.set({ chips: app.state.chips.slice(0, -1) }) },
  { keys: ["i"], text: "icicle or flame", act: flip("flame") },
  { keys: ["b"], text: "callers below their callees", act: flip("inverted") },
  { keys: ["v"], text: "largest first, or by name", act: flip("byValue") },
  { keys: ["c"], text: "next colours", act: (app) => app.set({ colour: nextOf(colourModes.filter((mode) => mode !== "diff" || app.state.compare !== null), app.model.colour(app.state), 1) }) },
  { keys: ["k"], text: "colour-blind-safe differences", act: flip("safe") },
  { keys: ["s"], text: "fold plumbing", act: flip("fold") },
  { keys: ["z"], text: "runs of frames with one callee as one box", act: flip("runs") },
  { keys: ["T"], text: "system frames on top of every stack", act: flip("top") },
  { keys: ["n"], text: "inlined functions as functions of their own", act: flip("inlined") },
  { keys: ["["], text: "range ends a snapshot earlier", act: shift("to", -1) },
  { keys: ["]"], text: "range ends a snapshot later", act: shift("to", 1) },
  { keys: ["{"], text: "range begins a snapshot earlier", act: shift("from", -1) },
  { keys: ["}"], text: "range begins a snapshot later", act: shift("from", 1) },
  { keys: ["l"], text: "timeline, large or as a strip", act: flip("course") },
  { keys: ["e"], text: "mean of the range", act: flip("mean") },
  {
    keys: ["w"],
    text: "compare the end of the range with its start",
    act: (app) =>
      app.compared.compare !== null
        ? app.set({ compare: null })
        : app.set({ compare: { type: app.model.baseHas(app.state) ? "files" : "time" } }),
  },
  { keys: ["t"], text: "dark or light", act: (_, page) => page.toggleTheme() },
  { keys: ["d"], text: "download a profile", act: (_, page) => page.download() },
  { keys: ["a"], text: "about this profile", act: (_, page) => page.toggleAbout() },
  { keys: ["p"], text: "print", act: () => window.print() },
  { keys: ["?"], text: "this list", act: (_, page) => page.toggleHelp() },
];

/** Keys of the flame graph, which the canvas itself handles. */
export const flameKeys: [string, string][] = [
  ["↓ ↑", "to the largest callee, to the caller"],
  ["← →", "to the sibling"],
  ["Enter", "zoom to it"],
  ["Space", "choose it, like a click"],
  ["Shift+F10", "list its actions"],
  ["wheel", "zoom; with Shift it scrolls"],
  ["drag", "move what is shown"],
  ["Home", "to the root"],
];

export function onKey(event: KeyboardEvent, app: App, page: Page): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target as HTMLElement;
  const typing = target.closest("input[type=search], input[type=text], select, textarea") !== null;
  if (typing && event.key !== "Escape") return;
  if (typing) target.blur();
  const key = keys.find((k) => k.keys.includes(event.key));
  if (key === undefined) return;
  event.preventDefault();
  key.act(app, page);
}
