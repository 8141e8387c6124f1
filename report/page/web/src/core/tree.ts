// The tree that views show: stacks filtered, folded and merged by function, as typed arrays in preorder.
//
// Preorder makes it fast: the subtree of node i is [i, end[i]). Totals are therefore one backward loop, finding "the outermost
// occurrence of a function" is one comparison, and a box that is too narrow to see is skipped with its subtree. tree_build.ts
// builds the tree from a report, and functions.ts answers questions about functions; drawing and searching never build.
import { drain, pauseMask, type Steps } from "./steps";

export interface FlameTree {
  size: number;
  parent: Int32Array;
  end: Int32Array;
  depth: Int32Array;
  func: Int32Array; // −1 at the root
  self: Float64Array[]; // one per column
  total: Float64Array[];
  weight: Float64Array; // width of the box
  x: Float64Array; // left edge, in the unit of weight
  maxDepth: number;
  viewOf: Int32Array; // node of the report → node here; −1: filtered out
}

/** Returns the width of a node's self value: the larger of two sides, so that removed memory is drawn as well. */
export function weightOf(columns: Float64Array[], i: number): number {
  const head = Math.abs(columns[0]![i]!);
  return columns.length > 1 ? Math.max(head, Math.abs(columns[1]![i]!)) : head;
}

/** Sorts siblings, puts all nodes into preorder, and sums up. Parents must come before their children. */
export function arrange(count: number, upper: Int32Array, func: Int32Array, self: Float64Array[], viewOf: Int32Array, byValue: boolean): FlameTree {
  return drain(arrangeSteps(count, upper, func, self, viewOf, byValue, null));
}

export function* arrangeSteps(
  count: number,
  upper: Int32Array,
  func: Int32Array,
  self: Float64Array[],
  viewOf: Int32Array,
  byValue: boolean,
  ownWeight: Float64Array | null,
): Steps<FlameTree> {
  const weight = new Float64Array(count);
  const totals = self.map((column) => column.slice(0, count));
  let functions = 0;
  for (let i = count - 1; i >= 0; --i) {
    if ((i & pauseMask) === 0) yield;
    if (i > 0) for (const total of totals) total[upper[i]!]! += total[i]!;
    weight[i]! += ownWeight !== null ? ownWeight[i]! : weightOf(self, i);
    if (i > 0) weight[upper[i]!]! += weight[i]!;
    if (func[i]! >= functions) functions = func[i]! + 1;
  }
  // Sort siblings by function with a counting sort. Names are sorted, so this sorts by name.
  const counts = new Int32Array(functions + 1);
  for (let i = 1; i < count; ++i) ++counts[func[i]! + 1]!;
  for (let i = 0; i < functions; ++i) counts[i + 1]! += counts[i]!;
  const byFunction = new Int32Array(Math.max(0, count - 1));
  for (let i = 1; i < count; ++i) byFunction[counts[func[i]!]!++] = i;
  const starts = new Int32Array(count + 1);
  for (let i = 1; i < count; ++i) if (weight[i]! > 0) ++starts[upper[i]! + 1]!;
  for (let i = 0; i < count; ++i) starts[i + 1]! += starts[i]!;
  const fill = starts.slice();
  const children = new Int32Array(starts[count]!);
  for (let k = 0; k < byFunction.length; ++k) {
    const i = byFunction[k]!;
    if (weight[i]! > 0) children[fill[upper[i]!]!++] = i;
  }
  if (byValue) {
    for (let i = 0; i < count; ++i) {
      if ((i & pauseMask) === 0) yield;
      if (starts[i + 1]! - starts[i]! > 1) {
        children.subarray(starts[i]!, starts[i + 1]!).sort((a, b) => weight[b]! - weight[a]! || func[a]! - func[b]!);
      }
    }
  }
  const size = children.length + 1;
  const tree: FlameTree = {
    size,
    parent: new Int32Array(size),
    end: new Int32Array(size),
    depth: new Int32Array(size),
    func: new Int32Array(size),
    self: self.map(() => new Float64Array(size)),
    total: self.map(() => new Float64Array(size)),
    weight: new Float64Array(size),
    x: new Float64Array(size),
    maxDepth: 0,
    viewOf,
  };
  const number = new Int32Array(count).fill(-1);
  const stack = new Int32Array(size);
  let top = 0;
  stack[top++] = 0;
  for (let at = 0; at < size; ++at) {
    if ((at & pauseMask) === 0) yield;
    const i = stack[--top]!;
    number[i] = at;
    tree.func[at] = func[i]!;
    tree.weight[at] = weight[i]!;
    for (let c = 0; c < self.length; ++c) {
      tree.self[c]![at] = self[c]![i]!;
      tree.total[c]![at] = totals[c]![i]!;
    }
    if (at > 0) {
      const up = number[upper[i]!]!;
      tree.parent[at] = up;
      tree.depth[at] = tree.depth[up]! + 1;
      if (tree.depth[at]! > tree.maxDepth) tree.maxDepth = tree.depth[at]!;
    }
    for (let k = starts[i + 1]! - 1; k >= starts[i]!; --k) stack[top++] = children[k]!;
  }
  for (let i = size - 1; i >= 0; --i) {
    if (tree.end[i] === 0) tree.end[i] = i + 1;
    if (i === 0) break;
    const up = tree.parent[i]!;
    if (tree.end[i]! > tree.end[up]!) tree.end[up] = tree.end[i]!;
  }
  const next = new Float64Array(size); // where the node's next child begins
  for (let i = 1; i < size; ++i) {
    const up = tree.parent[i]!;
    tree.x[i] = tree.x[up]! + next[up]!;
    next[up]! += tree.weight[i]!;
  }
  for (let i = 0; i < viewOf.length; ++i) if (viewOf[i]! >= 0) viewOf[i] = number[viewOf[i]!]!;
  return tree;
}

/** pathOf returns the functions from the root to a node, as the URL stores them. nodeAt returns the node. */
export function pathOf(tree: FlameTree, node: number): number[] {
  const path: number[] = [];
  for (let i = node; i > 0; i = tree.parent[i]!) path.push(tree.func[i]!);
  return path.reverse();
}

export function nodeAt(tree: FlameTree, path: number[]): number {
  let node = 0;
  for (const fn of path) {
    let found = -1;
    for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) {
      if (tree.func[i] === fn) {
        found = i;
        break;
      }
    }
    if (found < 0) return node;
    node = found;
  }
  return node;
}

/** Like nodeAt, but also finds a path that begins with frames that were folded into the root. */
export function nodeBelow(tree: FlameTree, path: number[]): number {
  for (let skip = 0; skip < path.length; ++skip) {
    const node = nodeAt(tree, path.slice(skip));
    if (node !== 0) return node;
  }
  return 0;
}

/** Returns the sum of the outermost nodes with a matching function: the result of a search. */
export function matchedTotal(tree: FlameTree, matches: Uint8Array, column = 0): number {
  let sum = 0;
  for (let i = 1; i < tree.size; ) {
    if (matches[tree.func[i]!] === 1) {
      sum += tree.total[column]![i]!;
      i = tree.end[i]!;
    } else {
      ++i;
    }
  }
  return sum;
}
