// Sums of a tree by function: self and total, callers and callees.
import { drain, pauseMask, type Steps } from "./steps";
import { arrange, arrangeSteps, weightOf, type FlameTree } from "./tree";

export interface FunctionRow {
  func: number;
  self: number[];
  total: number[];
}

/** Returns one row per function. A function that occurs twice in a stack counts once. */
export const functionTable = (tree: FlameTree): FunctionRow[] => drain(functionTableSteps(tree));

export function* functionTableSteps(tree: FlameTree): Steps<FunctionRow[]> {
  let functions = 0;
  for (let i = 0; i < tree.size; ++i) if (tree.func[i]! >= functions) functions = tree.func[i]! + 1;
  const covered = new Int32Array(functions); // end of the outermost open occurrence
  const rows: (FunctionRow | undefined)[] = new Array(functions);
  const columns = tree.self.length;
  for (let i = 1; i < tree.size; ++i) {
    if ((i & pauseMask) === 0) yield;
    const fn = tree.func[i]!;
    let row = rows[fn];
    if (row === undefined) row = rows[fn] = { func: fn, self: new Array(columns).fill(0), total: new Array(columns).fill(0) };
    const outermost = covered[fn]! <= i;
    if (outermost) covered[fn] = tree.end[i]!;
    for (let c = 0; c < columns; ++c) {
      row.self[c]! += tree.self[c]![i]!;
      if (outermost) row.total[c]! += tree.total[c]![i]!;
    }
  }
  return rows.filter((row): row is FunctionRow => row !== undefined);
}

/** Returns the outermost occurrences of a function. */
export function occurrences(tree: FlameTree, func: number): number[] {
  const found: number[] = [];
  for (let i = 1; i < tree.size; ) {
    if (tree.func[i] === func) {
      found.push(i);
      i = tree.end[i]!;
    } else {
      ++i;
    }
  }
  return found;
}

/** Returns the merged callees of a function: everything below its outermost occurrences. The function is the root's only child. */
export function calleeTree(tree: FlameTree, func: number, byValue: boolean): FlameTree {
  const places = occurrences(tree, func);
  let most = 2;
  for (const place of places) most += tree.end[place]! - place;
  const upper = new Int32Array(most);
  const funcs = new Int32Array(most);
  const self = tree.self.map(() => new Float64Array(most));
  funcs[0] = -1;
  funcs[1] = func;
  let count = 2;
  const known = new Map<number, number>();
  const to = new Map<number, number>();
  for (const place of places) {
    to.clear();
    for (let i = place; i < tree.end[place]!; ++i) {
      let node = 1;
      if (i !== place) {
        const up = to.get(tree.parent[i]!)!;
        const key = up * 4194304 + tree.func[i]!;
        node = known.get(key) ?? -1;
        if (node < 0) {
          node = count++;
          known.set(key, node);
          upper[node] = up;
          funcs[node] = tree.func[i]!;
        }
      }
      to.set(i, node);
      for (let c = 0; c < self.length; ++c) self[c]![node]! += tree.self[c]![i]!;
    }
  }
  return arrange(count, upper, funcs, self, new Int32Array(0), byValue);
}

/**
 * Returns callers, upside down: the functions at `places` are below the root, their callers below them, and so on. Without `func`:
 * all functions with a self value (the bottom-up tree). A caller with less than `least` of the weight is not opened; the rest of
 * its box represents its callers.
 */
export const callerTree = (tree: FlameTree, func: number | null, byValue: boolean, least = 0): FlameTree => drain(callerTreeSteps(tree, func, byValue, least));

export function* callerTreeSteps(tree: FlameTree, func: number | null, byValue: boolean, least: number): Steps<FlameTree> {
  const columns = tree.self.length;
  const upper: number[] = [0];
  const funcs: number[] = [-1];
  const totals: number[][] = [new Array(columns).fill(0)];
  const weights: number[] = [0];
  // Each group of places became one node. Each place keeps its initial values.
  let open: { node: number; at: number[]; origin: number[] }[] = [];
  const places: number[] = func !== null ? occurrences(tree, func) : [];
  if (func === null) for (let i = 1; i < tree.size; ++i) if (selfWeight(tree, i) !== 0) places.push(i);
  const valueOf = (origin: number, c: number) => (func !== null ? tree.total[c]![origin]! : tree.self[c]![origin]!);
  const weightAt = (origin: number) => (func !== null ? tree.weight[origin]! : selfWeight(tree, origin));
  const group = (parentNode: number, at: number[], origin: number[]) => {
    const groups = new Map<number, { node: number; at: number[]; origin: number[] }>();
    for (let k = 0; k < at.length; ++k) {
      const i = at[k]!;
      if (i === 0) continue;
      const fn = tree.func[i]!;
      let there = groups.get(fn);
      if (there === undefined) {
        there = { node: funcs.length, at: [], origin: [] };
        groups.set(fn, there);
        upper.push(parentNode);
        funcs.push(fn);
        totals.push(new Array(columns).fill(0));
        weights.push(0);
      }
      there.at.push(tree.parent[i]!);
      there.origin.push(origin[k]!);
      for (let c = 0; c < columns; ++c) totals[there.node]![c]! += valueOf(origin[k]!, c);
      weights[there.node]! += weightAt(origin[k]!);
    }
    return groups.values();
  };
  open.push(...group(0, places, places));
  let whole = 0;
  for (const { node } of open) whole += weights[node]!;
  while (open.length > 0) {
    const next: typeof open = [];
    for (const { node, at, origin } of open) {
      yield;
      if (weights[node]! <= least * whole) continue;
      next.push(...group(node, at, origin));
    }
    open = next;
  }
  // A node's self value is the part that none of its callers covers.
  const count = funcs.length;
  const self = Array.from({ length: columns }, (_, c) => Float64Array.from(totals, (values) => values[c]!));
  const own = Float64Array.from(weights);
  for (let i = 1; i < count; ++i) {
    for (let c = 0; c < columns; ++c) self[c]![upper[i]!]! -= upper[i] === 0 ? 0 : totals[i]![c]!;
    if (upper[i] !== 0) own[upper[i]!]! -= weights[i]!;
  }
  return yield* arrangeSteps(count, Int32Array.from(upper), Int32Array.from(funcs), self, new Int32Array(0), byValue, own);
}

function selfWeight(tree: FlameTree, i: number): number {
  return weightOf(tree.self, i);
}

/** Returns the direct neighbours of a function (pprof's peek): callers and callees with the value of each edge. */
export function neighbours(tree: FlameTree, func: number): { callers: Map<number, number[]>; callees: Map<number, number[]> } {
  const callers = new Map<number, number[]>();
  const callees = new Map<number, number[]>();
  const columns = tree.total.length;
  const add = (map: Map<number, number[]>, fn: number, i: number) => {
    let values = map.get(fn);
    if (values === undefined) map.set(fn, (values = new Array(columns).fill(0)));
    for (let c = 0; c < columns; ++c) values[c]! += tree.total[c]![i]!;
  };
  // An edge that occurs twice in a stack counts once: only its outermost occurrence.
  const coveredIn = new Map<number, number>();
  const coveredOut = new Map<number, number>();
  for (let i = 1; i < tree.size; ++i) {
    const up = tree.parent[i]!;
    if (tree.func[i] === func) {
      const caller = tree.func[up]!;
      if ((coveredIn.get(caller) ?? 0) <= i) {
        coveredIn.set(caller, tree.end[i]!);
        add(callers, caller, i);
      }
    }
    if (up > 0 && tree.func[up] === func) {
      const callee = tree.func[i]!;
      if ((coveredOut.get(callee) ?? 0) <= i) {
        coveredOut.set(callee, tree.end[i]!);
        add(callees, callee, i);
      }
    }
  }
  return { callers, callees };
}
