// Leaks: stacks ranked by their growth, as in `holdfast leaks`. The tool computes slopes, intervals and shapes
// (report/analysis/growth/growth.h), so that there is only one rule. The page only combines them and finds them in the tree.
import type { Report } from "./data";
import { formatDuration } from "./units";

export type Shape = "growing" | "steps" | "plateau" | "saw-tooth" | "one-off" | "undecided" | "noise";

/** Whether a process grows. report/analysis/growth/growth_answer.h decides, for `holdfast leaks` and for the page. */
export interface GrowthAnswer {
  grows: "growing" | "grows in steps" | "cannot tell" | "level";
  text: string; // the answer as `holdfast leaks` prints it
  rises: boolean; // something certainly rises, but may still stop: no verdict yet
  goesOn: boolean; // it rose lately, too
  // If something rises: the bytes in use before, how long it took, and the owner of the largest part.
  before: number;
  hours: number;
  largest: number[];
  by: string; // precedes the owner's name: "by", "mostly by"; "" if nobody has at least half
}

/** A stack of one process. Slopes are per hour; half widths are of their 95 % intervals. */
export interface Leak {
  process: string;
  kind: Growth["kind"];
  shape: Shape;
  slope: number;
  halfWidth: number;
  objectSlope: number;
  now: number; // bytes in use at the newest snapshot
  objectsNow: number;
  stack: number[]; // functions, innermost first, without plumbing
  course: number[]; // bytes over the snapshots, thinned
  halfAge: number; // ns; half of its bytes in use are older than halfAge, some are older than oldestAge; -1: unknown
  oldestAge: number;
  text: string; // "a ← b ← …": enough functions to distinguish it from the others
  order: number; // place in the list of all stacks
  leaks: boolean; // it grows, steadily or in steps
}

/** A unit of time for growth: how many are in an hour, and "an hour". */
export interface Rate {
  anHour: number;
  words: string;
}

/** All memory in use of one process: its heap, or its own mappings. */
export interface Growth {
  process: string; // "" if the files do not state it
  kind: "heap" | "map";
  snapshots: number;
  order: number; // place in the list of processes: the one that most surely grows first
  rate: Rate; // the unit of time that fits the duration of the observation
  births?: boolean; // the ages of live blocks are the course, as there are few snapshots
  hours: number;
  slope: number;
  halfWidth: number;
  shape: Shape;
  now: number;
  answer: GrowthAnswer;
  memory: string[]; // what all resident memory did, as `holdfast leaks` prints it; empty: unknown
  growing: number; // number of growing stacks; the report contains the first 1,000
  stacks: Leak[];
}

/** Returns the unit of time for several growths: that of the shortest observation. */
export const rateUnit = (growths: Growth[]): Rate => growths.reduce((a, b) => (b.hours < a.hours ? b : a)).rate;

/** Returns the most important process. */
export const worst = (growths: Growth[]): Growth | undefined => [...growths].sort((a, b) => a.order - b.order)[0];

/** Those of the heap; of mappings if no heap is there. */
export function mainKind<T extends { kind: Growth["kind"] }>(all: T[]): T[] {
  const heap = all.filter(({ kind }) => kind === "heap");
  return heap.length > 0 ? heap : all;
}

/** Returns all stacks in the order of `holdfast leaks`. */
export const findLeaks = (growths: Growth[]): Leak[] => growths.flatMap((growth) => growth.stacks).sort((a, b) => a.order - b.order);

/** Formats how long growth was observed, as `holdfast leaks` does: to a tenth of a second. */
export const hoursText = (hours: number): string => formatDuration(Math.round(hours * 36_000) * 100);

/** Returns 1 for each node of the report where a stack ends that, without plumbing, is one of `leaks`. */
export function nodesOf(report: Report, leaks: Leak[]): Uint8Array {
  interface Step {
    next: Map<number, Step>;
    ends: boolean;
  }
  const root: Step = { next: new Map(), ends: false };
  for (const { stack } of leaks) {
    let step = root;
    for (let i = stack.length - 1; i >= 0; --i) {
      const next = step.next.get(stack[i]!) ?? { next: new Map(), ends: false };
      step.next.set(stack[i]!, next);
      step = next;
    }
    step.ends = true;
  }
  const { parent, frame, frameFunction } = report;
  const steps = new Array<Step | undefined>(parent.length);
  const found = new Uint8Array(parent.length);
  steps[0] = root;
  if (root.ends) found[0] = 1;
  for (let i = 1; i < parent.length; ++i) {
    const above = steps[parent[i]!];
    const fn = frameFunction[frame[i]!]!;
    const step = above?.next.get(fn) ?? (report.functionPlumbing[fn] === 1 ? above : undefined);
    if (step === undefined) continue;
    steps[i] = step;
    if (step.ends) found[i] = 1;
  }
  return found;
}
