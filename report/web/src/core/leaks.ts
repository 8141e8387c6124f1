// Leaks: stacks ranked by the growth of what they hold, as `holdfast leaks` ranks them. Slopes, intervals and shapes come
// from the tool (report/growth/growth.h), so that there is one rule; here they are only brought together and found in the tree.
import type { Report } from "./data";
import { formatDuration } from "./units";

export type Shape = "growing" | "steps" | "plateau" | "saw-tooth" | "one-off" | "undecided" | "noise";

/** Whether a process grows: report/growth/growth_answer.h decides it, for `holdfast leaks` and for the page. */
export interface GrowthAnswer {
  grows: "growing" | "grows in steps" | "cannot tell" | "level";
  text: string; // the answer as `holdfast leaks` prints it
  rises: boolean; // something surely does, and cannot tell: it may stop
  // Where something rises: bytes in use before the rise, how long it took, and whose the largest part is, innermost first.
  before: number;
  hours: number;
  largest: number[];
  by: string; // what stands before its name: "by", "mostly by"; "" where nobody did half of it
}

/** A stack of one process. Slopes are for each hour; half widths are of their 95 % intervals. */
export interface Leak {
  process: string;
  shape: Shape;
  slope: number;
  halfWidth: number;
  objectSlope: number;
  now: number; // bytes in use at the newest snapshot
  objectsNow: number;
  stack: number[]; // functions, innermost first, without plumbing
  course: number[]; // bytes over the snapshots, thinned
  halfAge: number; // ns that half of its bytes in use are older than, oldestAge: some; -1: not known
  oldestAge: number;
  text: string; // "a ← b ← …": as many functions as tell it from the others
}

/** All memory in use of one process. */
export interface Growth {
  process: string; // "" when the files do not say
  snapshots: number;
  hours: number;
  slope: number;
  halfWidth: number;
  shape: Shape;
  now: number;
  answer: GrowthAnswer;
  memory: string[]; // what all resident memory did, as `holdfast leaks` prints it; empty: not known
  growing: number; // stacks that grow; the report has the first 1,000 of them
  stacks: Leak[];
}

/** The unit of time that growth is told in: one that fits the time over which it was seen (report/growth/rate_unit.h). */
export function rateUnit(growths: Growth[]): { anHour: number; words: string } {
  const minutes = 60 * Math.min(...growths.map(({ hours }) => hours));
  if (minutes >= 4.99) return { anHour: 1, words: "an hour" };
  return minutes >= 1 ? { anHour: 60, words: "a minute" } : { anHour: 3600, words: "a second" };
}

/** The process of which there is most to say: one that grows, else one of which nobody can tell. */
export function worst(growths: Growth[]): Growth | undefined {
  const rank = ({ answer }: Growth) => ["level", "cannot tell", "grows in steps", "growing"].indexOf(answer.grows);
  return [...growths].sort((a, b) => rank(b) - rank(a) || b.now - b.answer.before - (a.now - a.answer.before))[0];
}

export const isLeak = ({ shape }: { shape: Shape }): boolean => shape === "growing" || shape === "steps";

/** Growing ones first, by the lower end of the interval; then by what they hold. */
export function findLeaks(growths: Growth[]): Leak[] {
  const leaks = growths.flatMap((growth) => growth.stacks);
  const grows = (leak: Leak) => (isLeak(leak) ? 1 : 0);
  const low = (leak: Leak) => leak.slope - leak.halfWidth;
  return leaks.sort((a, b) => grows(b) - grows(a) || (grows(a) === 1 ? low(b) - low(a) : b.now - a.now));
}

/** How long growth was seen, as `holdfast leaks` says it: to a tenth of a second. */
export const hoursText = (hours: number): string => formatDuration(Math.round(hours * 36_000) * 100);

/** By node of the report: 1 where the stack that ends there, without plumbing, is one of `leaks`. */
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
