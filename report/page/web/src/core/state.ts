// The state of the page as an address. Everything but the theme is stored after the # of the URL, so that Back and Forward undo and
// redo, and a link shows the same picture. The address stores functions by name, because their numbers differ between reports: a
// link to one report then works in another, or the page says that it cannot.
import type { Compare, LabelChoice } from "./select";

export const views = ["flame", "functions", "topdown", "bottomup", "sandwich", "graph", "source", "leaks", "locks", "compare", "memory"] as const;
export type View = (typeof views)[number];
export const colourModes = ["package", "origin", "function", "diff", "cause"] as const;
export type ColourMode = (typeof colourModes)[number];
export type Chip = { type: "focus" | "hide" | "from"; pattern: string };
export type SortKey = "self" | "total" | "base" | "change" | "name";
export type Change = "more" | "less" | "added" | "removed" | "same";
const sortKeys: readonly string[] = ["self", "total", "base", "change", "name"];
const changeKinds: readonly string[] = ["more", "less", "added", "removed", "same"];

export interface State {
  metric: string; // "" = the default
  view: View;
  search: string;
  chips: Chip[];
  labels: LabelChoice[];
  zoom: number[]; // functions from the root
  pinned: number[]; // the frame that the inspector shows, as zoom; []: the one that is zoomed to
  selected: number; // a function, −1: none
  colour: ColourMode | ""; // "": what suits the report (Model.colour)
  safe: boolean; // colours of differences that colour-blind people can tell apart
  flame: boolean; // root below instead of above
  inverted: boolean; // callers below their callees: the bottom-up flame graph
  byValue: boolean;
  fold: boolean; // plumbing goes into its caller
  inlined: boolean; // inlined functions are functions of their own
  runs: boolean; // show chains of frames with one callee and no self value as one box
  top: boolean; // fold outermost system frames into the root of the flame graph
  sort: SortKey;
  ascending: boolean;
  least: boolean; // trees as tables: sort the smallest first
  unchanged: Change[]; // kinds of change that the table of changes hides
  graphNodes: number;
  graphCut: number; // fraction of the total below which nothing is drawn
  course: boolean; // the timeline is open
  from: number; // milliseconds since 1970; −1: the beginning
  to: number; // −1: the end
  mean: boolean;
  weight: [number, number] | null;
  process: string;
  compare: Compare | null;
  side: "both" | "head" | "base"; // which side of a comparison is shown
  base: boolean; // the files to compare with, alone; never in an address: made by oneSide
  normalise: boolean;
  mine: string[]; // objects that count as the user's own
}

export const initialState: State = {
  metric: "",
  view: "flame",
  search: "",
  chips: [],
  labels: [],
  zoom: [],
  pinned: [],
  selected: -1,
  colour: "",
  safe: false,
  flame: false,
  inverted: false,
  byValue: false,
  fold: true,
  inlined: true,
  runs: true,
  top: true,
  sort: "self",
  ascending: false,
  least: false,
  unchanged: ["same"],
  graphNodes: 30,
  graphCut: 0.01,
  course: false,
  from: -1,
  to: -1,
  mean: false,
  weight: null,
  process: "",
  compare: null,
  side: "both",
  base: false,
  normalise: false,
  mine: [],
};

/** One side of a comparison as a state that compares nothing. `first`: the earliest moment. */
export function oneSide(state: State, side: "head" | "base", first: number): State {
  const { compare } = state;
  if (compare === null) return state;
  const alone = { ...state, compare: null, base: compare.type === "files" && side === "base" };
  if (compare.type === "label") return { ...alone, labels: [...state.labels.filter(({ key }) => key !== compare.key), { key: compare.key, text: compare[side] }] };
  if (compare.type === "time") return { ...alone, from: -1, to: side === "head" ? state.to : state.from >= 0 ? state.from : first };
  return alone;
}

/** How a view shows a comparison: "both" sides, only "one" at a time, or the "head" whatever is chosen. */
export const comparesAs: Record<View, "both" | "one" | "head"> = {
  flame: "both", functions: "both", topdown: "both", bottomup: "both", sandwich: "both", compare: "both",
  graph: "one", source: "one",
  leaks: "head", locks: "head", memory: "head",
};

const chipTypes = ["focus", "hide", "from"];
const flags = ["safe", "flame", "inverted", "byValue", "fold", "runs", "top", "least", "course", "mean", "normalise"] as const;

/** The functions of a report, by number and by name. */
export interface Names {
  of: (func: number) => string;
  find: (name: string) => number; // −1: not in this report
}

/** Returns the same choice for a report with other numbers. Omits functions that this report does not have. */
export function carried(state: State, from: Names, to: Names): State {
  if (from === to) return state;
  const find = (func: number) => (func < 0 ? -1 : to.find(from.of(func)));
  const path = (funcs: number[]) => {
    const found = funcs.map(find);
    const end = found.indexOf(-1);
    return end < 0 ? found : found.slice(0, end);
  };
  return { ...state, zoom: path(state.zoom), pinned: path(state.pinned), selected: find(state.selected) };
}

// A path of names: "main;std::map<int, int%3b>". Separators and the escape character are escaped in names.
const joined = (names: string[]): string => names.map((name) => name.replace(/[%;]/g, encodeURIComponent)).join(";");
const split = (text: string): string[] => text.split(";").map(decode);

/** `initial`: the state that an empty address means. */
export function toHash(state: State, names: Names, initial: State = initialState): string {
  const parts: string[] = [];
  const put = (key: string, value: string) => parts.push(`${key}=${encodeURIComponent(value)}`);
  if (state.view !== initial.view) put("view", state.view);
  if (state.metric !== initial.metric) put("metric", state.metric);
  for (const { type, pattern } of state.chips) put(type, pattern);
  for (const { key, text } of state.labels) put("label", `${encodeURIComponent(key)}:${encodeURIComponent(text)}`);
  if (state.search !== "") put("search", state.search);
  if (state.zoom.length > 0) put("zoom", joined(state.zoom.map(names.of)));
  if (state.pinned.length > 0) put("frame", joined(state.pinned.map(names.of)));
  if (state.selected >= 0) put("fn", names.of(state.selected));
  if (state.colour !== initial.colour) put("colour", state.colour);
  for (const flag of flags) if (state[flag] !== initial[flag]) put(flag, state[flag] ? "1" : "0");
  if (!state.inlined) put("inlined", "0");
  if (state.sort !== initial.sort || state.ascending) put("sort", `${state.ascending ? "-" : ""}${state.sort}`);
  if (state.unchanged.join() !== initial.unchanged.join()) put("without", state.unchanged.join());
  if (state.graphNodes !== initial.graphNodes || state.graphCut !== initial.graphCut) put("graph", `${state.graphNodes}:${state.graphCut}`);
  if (state.from >= 0 || state.to >= 0) put("range", `${state.from}:${state.to}`);
  if (state.weight !== null) put("weight", state.weight.join(":"));
  if (state.process !== "") put("process", state.process);
  const { compare } = state;
  if (JSON.stringify(compare) !== JSON.stringify(initial.compare)) {
    if (compare === null) put("compare", "off");
    else if (compare.type !== "label") put("compare", compare.type);
    else put("compare", ["label", compare.key, compare.base, compare.head].map(encodeURIComponent).join(":"));
  }
  if (state.side !== "both") put("side", state.side);
  for (const object of state.mine) put("mine", object);
  return parts.join("&");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `unknown`: names of functions that this report does not have. */
export function fromHash(hash: string, names: Names, initial: State = initialState): { state: State; unknown: string[] } {
  const unknown: string[] = [];
  const find = (name: string) => {
    const func = names.find(name);
    if (func < 0) unknown.push(name);
    return func;
  };
  const state: State = { ...initial, chips: [], labels: [], zoom: [], pinned: [], mine: [] };
  for (const part of hash.replace(/^#/, "").split("&")) {
    const equals = part.indexOf("=");
    if (equals < 0) continue;
    const key = part.slice(0, equals);
    const value = decode(part.slice(equals + 1));
    if (chipTypes.includes(key)) state.chips.push({ type: key as Chip["type"], pattern: value });
    else if (key === "only") state.chips.push({ type: "focus", pattern: value }); // its former name
    else if (key === "view" && (views as readonly string[]).includes(value)) state.view = value as View;
    else if (key === "colour" && (colourModes as readonly string[]).includes(value)) state.colour = value as ColourMode;
    else if (key === "metric" || key === "search" || key === "process") state[key] = value;
    else if (key === "label") {
      const [k, text] = value.split(":").map(decode);
      if (text !== undefined) state.labels.push({ key: k!, text });
    } else if (key === "zoom" || key === "frame") {
      const path = split(value).map(find);
      const end = path.indexOf(-1);
      state[key === "zoom" ? "zoom" : "pinned"] = end < 0 ? path : path.slice(0, end); // the part of the path that exists here
    } else if (key === "fn") state.selected = find(value);
    else if (key === "sort") {
      const wanted = value.replace(/^-/, "");
      if (sortKeys.includes(wanted)) [state.sort, state.ascending] = [wanted as SortKey, value.startsWith("-")];
    } else if (key === "without") state.unchanged = value.split(",").filter((kind): kind is Change => changeKinds.includes(kind));
    else if (key === "graph") {
      const [nodes, cut] = value.split(":").map(Number);
      if (nodes! >= 1 && nodes! <= 500 && cut! >= 0 && cut! <= 1) [state.graphNodes, state.graphCut] = [Math.floor(nodes!), cut!];
    }
    else if ((flags as readonly string[]).includes(key)) state[key as (typeof flags)[number]] = value === "1";
    else if (key === "inlined") state.inlined = value !== "0";
    else if (key === "mine") state.mine.push(value);
    else if (key === "side" && ["both", "head", "base"].includes(value)) state.side = value as State["side"];
    else if (key === "range") {
      const [from, to] = value.split(":").map(Number);
      if (Number.isFinite(from) && Number.isFinite(to) && (to! < 0 || from! <= to!)) [state.from, state.to] = [Math.max(-1, from!), Math.max(-1, to!)];
    } else if (key === "weight") {
      const [low, high] = value.split(":").map(Number);
      if (Number.isFinite(low) && !Number.isNaN(high!)) state.weight = [low!, high!];
    } else if (key === "compare") {
      const [type, k, base, head] = value.split(":").map(decode);
      if (type === "off") state.compare = null;
      else if (type === "files" || type === "time") state.compare = { type };
      else if (type === "label" && head !== undefined) state.compare = { type, key: k!, base: base!, head };
    }
  }
  if (state.chips.length > 30) state.chips.length = 30; // each takes one bit of a word
  return { state, unknown };
}
