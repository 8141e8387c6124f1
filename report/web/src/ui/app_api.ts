// What every part of the page is given: the report's model, what is shown, and ways to change it.
import type { Chip, State } from "../core/state";
import { patternError } from "../core/match";
import { formatPercent, formatSigned, formatValue } from "../core/units";
import type { Model } from "./model";

export interface App {
  model: Model;
  state: State;
  initial: State;
  dark: boolean;
  /** Goes into the history, so that Back undoes it; `quietly` replaces the present entry. */
  set: (change: Partial<State>, quietly?: boolean) => void;
  say: (text: string) => void; // for screen readers, and as a short note
  node: number; // the frame that the flame graph is zoomed to, 0: none
}

export function addChip(app: App, type: Chip["type"], pattern: string): void {
  if (pattern === "") return;
  if (patternError(pattern) !== "") return app.say(`Not an expression, so not applied: ${patternError(pattern)}`);
  const chips = app.state.chips.filter((chip) => !(chip.type === type && chip.pattern === pattern));
  // Only one place can be shown from.
  const others = type === "from" ? chips.filter((chip) => chip.type !== "from") : chips;
  app.set({ chips: [...others, { type, pattern }], zoom: [] });
}

export const chipText: Record<Chip["type"], string> = { focus: "through", hide: "without", from: "from" };

export const chipHelp: Record<Chip["type"], string> = {
  focus: "only stacks in which a name matches",
  hide: "without stacks in which a name matches",
  from: "everything above this function is cut off",
};

export function valueText(app: App, value: number): string {
  return formatValue(value, app.model.metric(app.state).unit);
}

export function signedText(app: App, value: number): string {
  return formatSigned(value, app.model.metric(app.state).unit);
}

export const percentText = formatPercent;

/** The name of a function for people; the root is the whole program. */
export function nameOf(app: App, func: number): string {
  return func < 0 ? "all" : app.model.report.names[func]!;
}
