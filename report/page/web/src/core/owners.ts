// Determines owners: the first function from the leaf that is not plumbing. The tool decides what is plumbing
// (report/analysis/profiles/plumbing.h) and sends it as columns. This file computes the line `biggest` of `holdfast top`
// (report/show/top.cc) for the current selection; report/analysis/owners.h has the rule. Tests check that both agree.
import { baseName, objectName, objectOf, origins } from "./classify";
import type { Report } from "./data";
import type { FlameTree } from "./tree";

export interface Biggest {
  func: number;
  name: string; // for unnamed code in a library: the function that entered the library, with the library
  value: number;
  isBranch: boolean; // for C code: the largest branch instead of the innermost function
  other: string; // of an owner: for which function at least half was done; of a branch: its largest owner; "": none
}

/** Functions with one name are one here, as in the tables of `holdfast top`: lambdas on several lines, a method in two objects. */
interface Named {
  first: Int32Array; // per function: the first one with its name
  plumbing: Uint8Array; // by that one: whether all with the name are plumbing
}

function byName({ names, functionPlumbing }: Report): Named {
  const first = new Int32Array(names.length); // names are sorted
  const plumbing = Uint8Array.from(functionPlumbing);
  for (let i = 1; i < first.length; ++i) {
    first[i] = names[i] === names[i - 1] ? first[i - 1]! : i;
    plumbing[first[i]!]! &= functionPlumbing[i]!;
  }
  return { first, plumbing };
}

const isNameless = (name: string): boolean => /!0x[0-9a-f]*$|^\[.*\]$|^$/.test(name);

/** The first by name wins among equal values; this is the order of functions. */
const isLarger = (fn: number, sum: number, than: number, its = 0): boolean => than < 0 || Math.abs(sum) > Math.abs(its) || (Math.abs(sum) === Math.abs(its) && fn < than);

function nameOfOwner(report: Report, tree: FlameTree, node: number): string {
  const func = tree.func[node]!;
  const object = objectOf(report, func);
  if (!isNameless(report.names[func]!) || object === "" || report.functionOrigin[func] === origins.indexOf("user")) return report.shortNames[func]!;
  for (let i = tree.parent[node]!; i > 0 && objectOf(report, tree.func[i]!) === object; i = tree.parent[i]!) {
    if (!isNameless(report.names[tree.func[i]!]!)) return `${report.shortNames[tree.func[i]!]} (${objectName(report, func)})`;
  }
  return baseName(object);
}

/**
 * Returns for which function `owner` did most of its work. Considers the functions that at least half of it came through. Chooses
 * the outermost one that does not contain nearly everything (as main or an event loop do); of several, the largest.
 */
function mostlyFor(report: Report, tree: FlameTree, whole: number, owner: number, value: number, ownerOf: Int32Array, func: Int32Array, plumbing: Uint8Array): number {
  const below = new Float64Array(tree.size);
  const through = new Map<number, number>();
  const total = new Map<number, number>();
  for (let i = tree.size - 1; i > 0; --i) {
    if (ownerOf[i]! > 0 && func[ownerOf[i]!] === owner) below[i]! += tree.self[0]![i]!;
    below[tree.parent[i]!]! += below[i]!;
  }
  const covered = new Map<number, number>(); // end of the outermost occurrence
  for (let i = 1; i < tree.size; ++i) {
    const fn = func[i]!;
    if (below[i] === 0 && !through.has(fn)) continue;
    if ((covered.get(fn) ?? 0) > i) continue;
    covered.set(fn, tree.end[i]!);
    through.set(fn, (through.get(fn) ?? 0) + below[i]!);
  }
  covered.clear();
  for (let i = 1; i < tree.size; ++i) {
    const fn = func[i]!;
    if (!through.has(fn) || (covered.get(fn) ?? 0) > i) continue;
    covered.set(fn, tree.end[i]!);
    total.set(fn, (total.get(fn) ?? 0) + tree.total[0]![i]!);
  }
  const answers = (fn: number): boolean =>
    plumbing[fn] === 0 && 2 * Math.abs(through.get(fn) ?? 0) >= Math.abs(value) && 10 * Math.abs(total.get(fn) ?? 0) <= 9 * Math.abs(whole);
  const outermost = new Map<number, number>();
  for (let i = 1; i < tree.size; ) {
    const fn = func[i]!;
    if (below[i] !== 0 && !answers(fn)) {
      ++i;
      continue;
    }
    if (below[i] !== 0 && fn !== owner) outermost.set(fn, (outermost.get(fn) ?? 0) + below[i]!);
    i = tree.end[i]!;
  }
  let most = -1;
  for (const [fn, sum] of outermost) if (isLarger(fn, sum, most, outermost.get(most))) most = fn;
  return most;
}

/** "hashTypeSet", "inflate.part.0": neither C++ nor Rust. */
const isC = (name: string): boolean => !isNameless(name) && !/[:(<]/.test(name);

/** Returns the largest branch, and which of `ownerOf` has most of it; null if there is none. */
function largestBranch(report: Report, tree: FlameTree, whole: number, ownerOf: Int32Array, func: Int32Array, plumbing: Uint8Array): { func: number; value: number; by: number } | null {
  const self = tree.self[0]!;
  const inNode = tree.total[0]!;
  const until = new Int32Array(report.names.length); // end of the outermost occurrence
  const total = new Float64Array(report.names.length);
  for (let i = 1; i < tree.size; ++i) {
    if (self[i]! < 0) return null; // a difference
    const fn = func[i]!;
    if (until[fn]! > i) continue;
    until[fn] = tree.end[i]!;
    total[fn]! += inNode[i]!;
  }
  const small = -1;
  const none = -2;
  const number = new Int32Array(report.names.length).fill(small); // of functions with at least a tenth of the total
  const functions: number[] = [];
  total.forEach((value, fn) => {
    if (plumbing[fn] === 0 && value >= whole / 10) number[fn] = functions.push(fn) - 1;
  });
  const count = functions.length;
  if (count < 2 || count > 512) return null;
  const covered = new Map<number, number>(); // by pair; there are few
  const flows = new Map<number, number>();
  const caller = new Int32Array(tree.size).fill(none); // by node: number of the innermost function that is not plumbing
  const pair = (i: number): number => {
    const callee = caller[i]!;
    const above = caller[tree.parent[i]!]!;
    return callee >= 0 && above >= 0 && callee !== above ? above * count + callee : -1;
  };
  for (let i = 1; i < tree.size; ++i) {
    const fn = func[i]!;
    const above = caller[tree.parent[i]!]!;
    caller[i] = above === small || plumbing[fn] === 1 ? above : number[fn]!;
    const key = pair(i);
    if (key < 0 || (covered.get(key) ?? 0) > i) continue;
    covered.set(key, tree.end[i]!);
    flows.set(key, (flows.get(key) ?? 0) + inNode[i]!);
  }
  const branch = new Int32Array(tree.size).fill(-1); // by node: number of its function
  const ended = new Uint8Array(tree.size);
  const sums = new Map<number, number>();
  const by = new Map<number, Map<number, number>>();
  for (let i = 1; i < tree.size; ++i) {
    const parent = tree.parent[i]!;
    branch[i] = branch[parent]!;
    ended[i] = ended[parent]! | (caller[i] === small ? 1 : 0);
    const key = pair(i);
    if (key >= 0 && ended[i] === 0) {
      const of = total[functions[caller[i]!]!]!;
      const from = total[functions[caller[parent]!]!]!;
      const flow = flows.get(key)!;
      if (of <= 0.9 * whole) {
        if (flow < 0.9 * of) ended[i] = 1;
        else if (flow >= 0.25 * from && flow < 0.75 * from) branch[i] = caller[i]!;
      }
    }
    const own = self[i]!;
    if (branch[i]! < 0 || own === 0) continue;
    sums.set(branch[i]!, (sums.get(branch[i]!) ?? 0) + own);
    if (ownerOf[i] === 0) continue;
    const owners = by.get(branch[i]!) ?? new Map<number, number>();
    by.set(branch[i]!, owners);
    const owner = func[ownerOf[i]!]!;
    owners.set(owner, (owners.get(owner) ?? 0) + own);
  }
  let best = -1;
  for (const [of, sum] of sums) {
    const fn = functions[of]!;
    if (isC(report.names[fn]!) && sum >= 0.75 * total[fn]! && isLarger(fn, sum, best, best < 0 ? 0 : sums.get(number[best]!))) best = fn;
  }
  if (best < 0) return null;
  let most = -1;
  const owners = by.get(number[best]!) ?? new Map<number, number>();
  for (const [fn, sum] of owners) if (isLarger(fn, sum, most, owners.get(most))) most = fn;
  return { func: best, value: total[best]!, by: most };
}

/** Returns the holder that retains most, in a tree of holders: the outermost frame. */
export function biggestHolder(report: Report, tree: FlameTree): Biggest | null {
  const isHolder = (name: string) => name !== "several holders together" && name !== "[smaller holders]";
  let best = 0;
  for (let i = 1; i < tree.size; i = tree.end[i]!) {
    if (isHolder(report.names[tree.func[i]!]!) && (best === 0 || tree.total[0]![i]! > tree.total[0]![best]!)) best = i;
  }
  if (best === 0 || tree.total[0]![best] === 0) return null;
  const func = tree.func[best]!;
  return { func, name: report.shortNames[func]!, value: tree.total[0]![best]!, isBranch: false, other: "" };
}

/**
 * Returns the largest owner in `tree`, or null if everything is plumbing or zero. `whole`: the total including idle waits.
 * `withBranches`: for heaps; C code is then described by its branches.
 */
export function biggestOwner(report: Report, tree: FlameTree, whole = tree.total[0]![0]!, withBranches = false): Biggest | null {
  const { first, plumbing } = byName(report);
  const func = tree.func.map((fn) => first[fn]!); // by node
  const ownerOf = new Int32Array(tree.size); // by node; 0: none
  const sums = new Map<number, number>();
  const place = new Map<number, number>();
  for (let i = 1; i < tree.size; ++i) {
    const owner = report.functionPlumbing[tree.func[i]!] === 1 ? ownerOf[tree.parent[i]!]! : i;
    ownerOf[i] = owner;
    const own = tree.self[0]![i]!;
    if (owner === 0 || own === 0) continue;
    const fn = func[owner]!;
    sums.set(fn, (sums.get(fn) ?? 0) + own);
    if (!place.has(fn)) place.set(fn, owner);
  }
  let most = -1;
  for (const [fn, sum] of sums) if (isLarger(fn, sum, most, sums.get(most))) most = fn;
  if (most < 0 || sums.get(most) === 0) return null;
  const value = sums.get(most)!;
  const nameOf = (fn: number): string => nameOfOwner(report, tree, place.get(fn)!);
  if (withBranches && isC(report.names[most]!)) {
    const branch = largestBranch(report, tree, whole, ownerOf, func, plumbing);
    if (branch !== null && 2 * branch.value >= value) {
      const other = branch.by < 0 || branch.by === branch.func ? "" : nameOf(branch.by);
      return { func: branch.func, name: report.shortNames[branch.func]!, value: branch.value, isBranch: true, other };
    }
  }
  const user = mostlyFor(report, tree, whole, most, value, ownerOf, func, plumbing);
  return { func: most, name: nameOf(most), value, isBranch: false, other: user < 0 ? "" : report.shortNames[user]! };
}
