// The data that every part of the page receives: the report's model, the current state, and functions to change it.
import { useEffect, useState } from "preact/hooks";
import type { Chip, State } from "../core/state";
import { patternError } from "../core/match";
import { formatPercent, formatSigned, formatValue } from "../core/units";
import type { Model } from "./model";

export interface App {
  model: Model;
  state: State; // what is shown
  compared: State; // with the comparison that a view shows one side of
  initial: State;
  dark: boolean;
  live: boolean; // a live page
  /** Adds an entry to the history, so that Back undoes it. `replace` replaces the current entry. */
  set: (change: Partial<State>, replace?: boolean) => void;
  say: (text: string) => void; // for screen readers, and as a short note
  hover: Hover;
  closers: Closers;
  cursor: { func: number }; // of the flame graph, while it has the focus; −1: none. Keys act on it
}

/** What Esc closes first: menus, cards, lists over the page. */
export class Closers {
  private readonly all = new Map<string, () => boolean>();
  add(name: string, close: () => boolean): () => void {
    this.all.set(name, close);
    return () => this.all.get(name) === close && this.all.delete(name);
  }
  /** Returns whether something was open. */
  close(): boolean {
    return [...this.all.values()].some((close) => close());
  }
}

/** What the pointer is on, in any part of the page. Separate from the state, so that moves redraw little. */
export interface Pointed {
  func: number;
  node: number; // of the flame graph's tree, 0: only the function is meant
  by: "graph" | "table" | "key"; // key: the cursor of the flame graph was moved there
}

export class Hover {
  value: Pointed | null = null;
  private readonly listeners = new Set<(value: Pointed | null) => void>();
  set(value: Pointed | null): void {
    if (value?.func === this.value?.func && value?.node === this.value?.node && value?.by === this.value?.by) return;
    this.value = value;
    for (const listener of this.listeners) listener(value);
  }
  listen(listener: (value: Pointed | null) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useHover(app: App): Pointed | null {
  const [value, setValue] = useState(app.hover.value);
  useEffect(() => app.hover.listen(setValue), [app.hover]);
  return value;
}

export function addChip(app: App, type: Chip["type"], pattern: string): void {
  if (pattern === "") return;
  if (patternError(pattern) !== "") return app.say(`Not a valid expression, so not applied: ${patternError(pattern)}`);
  // Only and without the same is nothing: the newer one counts.
  const opposite = type === "hide" ? ["focus", "from"] : ["hide"];
  const chips = app.state.chips.filter((chip) => chip.pattern !== pattern || (chip.type !== type && !opposite.includes(chip.type)));
  // Only one place can be shown from.
  const others = type === "from" ? chips.filter((chip) => chip.type !== "from") : chips;
  app.set({ chips: [...others, { type, pattern }], zoom: [] });
}

export const chipText: Record<Chip["type"], string> = { focus: "through", hide: "without", from: "from" };

export const chipHelp: Record<Chip["type"], string> = {
  focus: "only stacks in which a name matches",
  hide: "without stacks in which a name matches",
  from: "show only what is below this function",
};

export function valueText(app: App, value: number): string {
  return formatValue(value, app.model.metric(app.state).unit);
}

export function signedText(app: App, value: number): string {
  return formatSigned(value, app.model.metric(app.state).unit);
}

export const percentText = formatPercent;

/** The whole name of a function; the root is the whole program. */
export function nameOf(app: App, func: number): string {
  return func < 0 ? "all" : app.model.report.names[func]!;
}
