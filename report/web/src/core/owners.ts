// Whose what is: the first function from the leaf on that is no plumbing. The rule is the tool's (report/profiles/plumbing.h),
// which sends its answers as columns; here is what `holdfast top` says in the line `biggest` (report/views/top.cc), of what is
// shown. Tests hold the two together.
import { baseName, objectName, objectOf, origins } from "./classify";
import type { Report } from "./data";
import type { FlameTree } from "./tree";

export interface Biggest {
  func: number;
  name: string; // of code without a name in a library: who entered the library, with the library
  value: number;
  mostlyFor: number; // a function, −1: none
}

const isNameless = (name: string): boolean => /!0x[0-9a-f]*$|^\[.*\]$|^$/.test(name);

/** Of equals the first by name, which is the order of functions. */
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
 * Of those that most of `busy` was made for by `owner`: of the functions that at least half of it came through, the outermost one
 * that not nearly everything comes through (main, an event loop); of several the one that most came through.
 */
function mostlyFor(report: Report, tree: FlameTree, whole: number, owner: number, value: number, ownerOf: Int32Array): number {
  const below = new Float64Array(tree.size);
  const through = new Map<number, number>();
  const total = new Map<number, number>();
  for (let i = tree.size - 1; i > 0; --i) {
    if (ownerOf[i]! > 0 && tree.func[ownerOf[i]!] === owner) below[i]! += tree.self[0]![i]!;
    below[tree.parent[i]!]! += below[i]!;
  }
  const covered = new Map<number, number>(); // end of the outermost occurrence
  for (let i = 1; i < tree.size; ++i) {
    const fn = tree.func[i]!;
    if (below[i] === 0 && !through.has(fn)) continue;
    if ((covered.get(fn) ?? 0) > i) continue;
    covered.set(fn, tree.end[i]!);
    through.set(fn, (through.get(fn) ?? 0) + below[i]!);
  }
  covered.clear();
  for (let i = 1; i < tree.size; ++i) {
    const fn = tree.func[i]!;
    if (!through.has(fn) || (covered.get(fn) ?? 0) > i) continue;
    covered.set(fn, tree.end[i]!);
    total.set(fn, (total.get(fn) ?? 0) + tree.total[0]![i]!);
  }
  const answers = (fn: number): boolean =>
    report.functionPlumbing[fn] === 0 && 2 * Math.abs(through.get(fn) ?? 0) >= Math.abs(value) && 10 * Math.abs(total.get(fn) ?? 0) <= 9 * Math.abs(whole);
  const outermost = new Map<number, number>();
  for (let i = 1; i < tree.size; ) {
    const fn = tree.func[i]!;
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

/** Who has most of what `tree` holds; null where it is all plumbing's, or nothing is. `whole`: of everything, idle waits too. */
export function biggestOwner(report: Report, tree: FlameTree, whole = tree.total[0]![0]!): Biggest | null {
  const ownerOf = new Int32Array(tree.size); // by node; 0: nobody
  const sums = new Map<number, number>();
  const place = new Map<number, number>();
  for (let i = 1; i < tree.size; ++i) {
    const owner = report.functionPlumbing[tree.func[i]!] === 1 ? ownerOf[tree.parent[i]!]! : i;
    ownerOf[i] = owner;
    const own = tree.self[0]![i]!;
    if (owner === 0 || own === 0) continue;
    const fn = tree.func[owner]!;
    sums.set(fn, (sums.get(fn) ?? 0) + own);
    if (!place.has(fn)) place.set(fn, owner);
  }
  let func = -1;
  for (const [fn, sum] of sums) if (isLarger(fn, sum, func, sums.get(func))) func = fn;
  if (func < 0 || sums.get(func) === 0) return null;
  const value = sums.get(func)!;
  return { func, name: nameOfOwner(report, tree, place.get(func)!), value, mostlyFor: mostlyFor(report, tree, whole, func, value, ownerOf) };
}
