// Colours of boxes. Calm ones: all of about the same lightness, so that none shouts, with dark text on them in both themes.
import type { Change, State } from "../core/state";
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

/** more, less, added, removed, and within the sampling error. */
export function diffColours(safe: boolean, dark: boolean): Record<"more" | "less" | "added" | "removed" | "same", string> {
  const light = dark ? 60 : 70;
  return safe
    ? { more: `hsl(24 88% ${light - 4}%)`, less: `hsl(202 70% ${light}%)`, added: `hsl(48 92% ${light - 4}%)`, removed: `hsl(255 48% ${light + 6}%)`, same: dark ? "hsl(220 6% 56%)" : "hsl(220 8% 85%)" }
    : { more: `hsl(2 74% ${light}%)`, less: `hsl(140 42% ${light - 6}%)`, added: `hsl(212 78% ${light}%)`, removed: `hsl(34 88% ${light - 6}%)`, same: dark ? "hsl(220 6% 56%)" : "hsl(220 8% 85%)" };
}


/** How a pair of values compares; "same" when the difference lies within 1.96 standard errors. */
export function changeOf(head: number, base: number, variance: number): Change {
  const difference = head - base;
  if (difference === 0 || Math.abs(difference) <= 1.96 * Math.sqrt(variance)) return "same";
  if (base === 0) return "added";
  if (head === 0) return "removed";
  return difference > 0 ? "more" : "less";
}

export interface Colouring {
  fill: (node: number) => string;
  legend: { colour: string; text: string }[];
}

export function colouring(model: Model, state: State, tree: FlameTree, dark: boolean): Colouring {
  const mode = state.colour === "diff" && state.compare === null ? "package" : state.colour;
  const root = dark ? "hsl(220 8% 62%)" : "hsl(220 12% 86%)";
  const byFunction: (string | undefined)[] = [];
  const cached = (compute: (fn: number) => string) => (node: number) => {
    const fn = tree.func[node]!;
    return fn < 0 ? root : (byFunction[fn] ??= compute(fn));
  };
  const tone = (hue: number, spread: number, alike: number) =>
    dark ? `hsl(${hue + spread} ${30 + alike}% ${60 + alike / 2}%)` : `hsl(${hue + spread} ${50 + alike}% ${77 + alike / 2}%)`;
  if (mode === "package") {
    const largest = model.packagesBySize(state).map(([name]) => name);
    // A name has its own hue in every report; of the largest none share one.
    const hueOf = new Map<string, number>();
    const taken = new Set<number>();
    for (const name of largest.slice(0, hues.length)) {
      let slot = hash(name) % hues.length;
      while (taken.has(slot)) slot = (slot + 1) % hues.length;
      taken.add(slot);
      hueOf.set(name, hues[slot]!);
    }
    const hue = (name: string) => hueOf.get(name) ?? hues[hash(name) % hues.length]!;
    const fill = cached((fn) => tone(hue(model.packageName(fn)), 0, (hash(model.report.names[fn]!) % 7) - 3));
    return { fill, legend: largest.slice(0, 6).map((text) => ({ text, colour: tone(hue(text), 0, 0) })) };
  }
  if (mode === "origin") {
    const colours = originColours[dark ? "dark" : "light"];
    return {
      fill: cached((fn) => colours[model.origin(state, fn)]),
      legend: (["user", "library", "system", "unknown"] as const).map((text) => ({ text, colour: colours[text] })),
    };
  }
  if (mode === "function") {
    return {
      fill: cached((fn) => {
        const h = hash(model.report.names[fn]!);
        return tone(hues[h % hues.length]!, ((h >>> 8) % 20) - 10, ((h >>> 16) % 9) - 4);
      }),
      legend: [],
    };
  }
  if (mode === "diff") {
    const colours = diffColours(state.safe, dark);
    const texts = { more: "more", less: "less", added: "added", removed: "removed", same: "within the sampling error" };
    return {
      fill: (node) =>
        node === 0 ? root : colours[changeOf(tree.total[0]![node]!, tree.total[1]![node]!, tree.total[2]?.[node] ?? 0)],
      legend: (Object.keys(texts) as Change[]).map((key) => ({ colour: colours[key], text: texts[key] })),
    };
  }
  const { names, of } = model.causes(state);
  const shades = names.map((_, i) => tone(hues[[9, 4, 1, 2, 3, 5, 6, 7, 8, 0, 10, 11][i % 12]!]!, 0, 0));
  const isShown = tree === model.tree(state);
  return {
    fill: (node) => (node === 0 || !isShown ? root : shades[of[node]!]!),
    legend: names.map((text, i) => ({ text, colour: shades[i]! })),
  };
}
