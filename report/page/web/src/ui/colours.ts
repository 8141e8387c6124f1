// Colours of boxes. They have about the same lightness, so that none dominates, with dark text in both themes.
import type { Change, State } from "../core/state";
import type { FunctionRow } from "../core/functions";
import type { FlameTree } from "../core/tree";
import type { Model } from "./model";

const hues = [28, 200, 150, 262, 48, 330, 175, 226, 96, 8, 290, 122];

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; ++i) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h ^ (h >>> 13)) >>> 0;
}

export const originColours = {
  light: { user: "hsl(30 78% 72%)", library: "hsl(205 48% 76%)", system: "hsl(215 12% 80%)", unknown: "hsl(280 12% 86%)" },
  dark: { user: "hsl(30 62% 62%)", library: "hsl(205 38% 62%)", system: "hsl(215 8% 58%)", unknown: "hsl(280 9% 52%)" },
};

type Tone = [hue: number, saturation: number, lightness: number];

/** more, less, added, removed, and within the sampling error. */
function diffTones(safe: boolean, dark: boolean): Record<Change, Tone> {
  const light = dark ? 60 : 70;
  const same: Tone = dark ? [220, 6, 56] : [220, 8, 85];
  return safe
    ? { more: [24, 88, light - 4], less: [202, 70, light], added: [48, 92, light - 4], removed: [255, 48, light + 6], same }
    : { more: [2, 74, light], less: [140, 42, light - 6], added: [212, 78, light], removed: [34, 88, light - 6], same };
}

const shade = ([hue, saturation, lightness]: Tone): string => `hsl(${hue} ${saturation}% ${lightness}%)`;

/** Returns the colour of a change, paler for smaller ones: `part` of the largest change, in five steps. */
function diffShade(tones: Record<Change, Tone>, change: Change, part: number, dark: boolean): string {
  const [hue, saturation, lightness] = tones[change];
  if (change === "same") return shade(tones.same);
  const strength = Math.ceil(Math.sqrt(Math.min(1, part)) * 5) / 5;
  const pale = dark ? 54 : 92;
  return shade([hue, saturation * (0.35 + 0.65 * strength), pale + (lightness - pale) * (0.25 + 0.75 * strength)]);
}

/** Compares a pair of values. "same": the difference is within 1.96 standard errors. */
export function changeOf(head: number, base: number, variance: number): Change {
  const difference = head - base;
  if (difference === 0 || Math.abs(difference) <= 1.96 * Math.sqrt(variance)) return "same";
  if (base === 0) return "added";
  if (head === 0) return "removed";
  return difference > 0 ? "more" : "less";
}

/** Returns the largest change of a frame, except for the root: it gets the strongest colour. */
function largestChange(tree: FlameTree): number {
  let largest = 0;
  for (let i = 1; i < tree.size; ++i) largest = Math.max(largest, Math.abs(tree.total[0]![i]! - tree.total[1]![i]!));
  return largest;
}

/** Returns the colour of a function in a table: that of its boxes. */
export function swatches(model: Model, state: State, dark: boolean): (row: FunctionRow) => string {
  const tree = model.tree(state);
  if (model.colour(state) === "diff") {
    const tones = diffTones(state.safe, dark);
    const largest = largestChange(tree) || 1;
    return ({ total }) => diffShade(tones, changeOf(total[0]!, total[1]!, total[2] ?? 0), Math.abs(total[0]! - total[1]!) / largest, dark);
  }
  const { ofFunction } = colouring(model, state, tree, dark);
  return ({ func }) => ofFunction(func);
}

export interface Colouring {
  ofFunction: (func: number) => string; // if all boxes of a function have one colour
  fill: (node: number) => string;
  legend: { colour: string; text: string }[];
}

export function colouring(model: Model, state: State, tree: FlameTree, dark: boolean): Colouring {
  const isOneSide = state.compare === null || (state.side !== "both" && tree === model.flame(state));
  const chosen = model.colour(state);
  const mode = chosen === "diff" && isOneSide ? "package" : chosen;
  const root = dark ? "hsl(220 8% 62%)" : "hsl(220 12% 86%)";
  const byFunction: (string | undefined)[] = [];
  const cached = (compute: (fn: number) => string, legend: Colouring["legend"]): Colouring => {
    const ofFunction = (fn: number) => (fn < 0 ? root : (byFunction[fn] ??= compute(fn)));
    return { ofFunction, fill: (node) => ofFunction(tree.func[node]!), legend };
  };
  const tone = (hue: number, spread: number, alike: number) =>
    dark ? `hsl(${hue + spread} ${30 + alike}% ${60 + alike / 2}%)` : `hsl(${hue + spread} ${50 + alike}% ${77 + alike / 2}%)`;
  if (mode === "package") {
    const largest = model.packagesBySize(state).map(([name]) => name);
    // A name has the same hue in every report. The largest functions have different hues.
    const hueOf = new Map<string, number>();
    const taken = new Set<number>();
    for (const name of largest.slice(0, hues.length)) {
      let slot = hash(name) % hues.length;
      while (taken.has(slot)) slot = (slot + 1) % hues.length;
      taken.add(slot);
      hueOf.set(name, hues[slot]!);
    }
    const hue = (name: string) => hueOf.get(name) ?? hues[hash(name) % hues.length]!;
    return cached(
      (fn) => tone(hue(model.packageName(fn)), 0, (hash(model.report.names[fn]!) % 7) - 3),
      largest.slice(0, 6).map((text) => ({ text, colour: tone(hue(text), 0, 0) })),
    );
  }
  if (mode === "origin") {
    const colours = originColours[dark ? "dark" : "light"];
    return cached(
      (fn) => colours[model.origin(state, fn)],
      (["user", "library", "system", "unknown"] as const).map((text) => ({ text, colour: colours[text] })),
    );
  }
  if (mode === "function") {
    return cached((fn) => {
      const h = hash(model.report.names[fn]!);
      return tone(hues[h % hues.length]!, ((h >>> 8) % 20) - 10, ((h >>> 16) % 9) - 4);
    }, []);
  }
  if (mode === "diff") {
    const tones = diffTones(state.safe, dark);
    const largest = largestChange(tree) || 1;
    const texts = { more: "more", less: "less", added: "added", removed: "removed", same: "within the sampling error" };
    return {
      ofFunction: () => root,
      fill: (node) => {
        if (node === 0) return root;
        const [head, base] = [tree.total[0]![node]!, tree.total[1]![node]!];
        return diffShade(tones, changeOf(head, base, tree.total[2]?.[node] ?? 0), Math.abs(head - base) / largest, dark);
      },
      legend: (Object.keys(texts) as Change[]).map((key) => ({ colour: shade(tones[key]), text: texts[key] })),
    };
  }
  const isShown = tree === model.tree(state) || (!state.inverted && tree === model.flame(state));
  const { names, of } = model.causes(state, isShown ? tree : model.tree(state));
  const shades = names.map((_, i) => tone(hues[[9, 4, 1, 2, 3, 5, 6, 7, 8, 0, 10, 11][i % 12]!]!, 0, 0));
  return {
    ofFunction: () => root,
    fill: (node) => (node === 0 || !isShown ? root : shades[of[node]!]!),
    legend: names.map((text, i) => ({ text, colour: shades[i]! })),
  };
}

/** The canvas's colours, apart from those of the boxes. */
export const flameThemes = {
  light: { text: "#1c1b19", muted: "#e8e6e1", mutedText: "#57534c", faded: "#efedea", fadedText: "#7a766f", line: "#a9a49b", hatch: "#d8d4cc", mark: "#0b57d0", lit: "#0b57d0", chosen: "#1c1b19", value: 0.82 },
  dark: { text: "#14130f", muted: "#34353a", mutedText: "#b9bac0", faded: "#2b2c31", fadedText: "#8d8f96", line: "#6a6c74", hatch: "#45474e", mark: "#8ab4ff", lit: "#f4f1ea", chosen: "#ffffff", value: 1 },
};
