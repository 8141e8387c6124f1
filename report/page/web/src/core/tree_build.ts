// Builds the tree for display from the stacks of a report: filters, folds, and merges by function.
//
// Building 1,000,000 nodes takes about 0.15 s, with filters 0.7 s.
import type { Report } from "./data";
import { drain, pauseMask, type Steps } from "./steps";
import { arrangeSteps, weightOf, type FlameTree } from "./tree";

export interface StackFilter {
  type: "focus" | "hide" | "from";
  matches: Uint8Array; // by function
}

export interface TreeOptions {
  filters: StackFilter[];
  fold: Uint8Array | null; // by frame: 1 = fold into its caller
  byValue: boolean;
  // By frame: 1 = fold into the root if only such frames are above it and something is below it.
  top?: Uint8Array | null;
  side?: number; // this column alone determines the widths; the other is still compared
}

/** `columns`: over the nodes of the report: head, then base, then variance of the difference. */
export const buildTree = (report: Report, columns: Float64Array[], options: TreeOptions): FlameTree => drain(buildTreeSteps(report, columns, options));

export function* buildTreeSteps(report: Report, columns: Float64Array[], options: TreeOptions): Steps<FlameTree> {
  const { parent, frame, frameFunction } = report;
  const nodes = parent.length;
  if (options.filters.length === 0 && options.fold === null && (options.top ?? null) === null && !options.byValue && options.side === undefined) {
    const tree = mergeInOrder(report, columns);
    if (tree !== null) return tree;
  }

  // Skip nodes that lead to no value.
  const live = new Uint8Array(nodes);
  for (let i = nodes - 1; i >= 0; --i) {
    if ((i & pauseMask) === 0) yield;
    if (live[i] === 0 && weightOf(columns, i) !== 0) live[i] = 1;
    if (live[i] === 1) live[parent[i]!] = 1;
  }

  // The filters that matched on the way from the root: one bit per filter that must match.
  let wanted = 0;
  const bits = options.filters.map((filter, k) => {
    if (filter.type !== "hide") wanted |= 1 << k;
    return 1 << k;
  });
  const seen = new Int32Array(options.filters.length > 0 ? nodes : 1);
  const from = options.filters.findIndex((filter) => filter.type === "from");

  // Merge: (parent node, function) → node, in a hash table with open addressing.
  let capacity = 1024;
  let liveCount = 0;
  for (let i = 0; i < nodes; ++i) liveCount += live[i]!;
  while (capacity < liveCount * 2) capacity *= 2;
  const table = new Int32Array(capacity);
  const made = liveCount + 1;
  const upper = new Int32Array(made);
  const func = new Int32Array(made);
  func[0] = -1;
  let count = 1;
  const viewOf = new Int32Array(nodes).fill(-1);
  viewOf[0] = 0;
  const nodeOf = (up: number, fn: number): number => {
    let place = (Math.imul(up, 0x9e3779b1) ^ Math.imul(fn, 0x85ebca6b)) >>> 0;
    place = (place ^ (place >>> 15)) & (capacity - 1);
    for (;;) {
      const there = table[place]!;
      if (there === 0) {
        table[place] = count;
        upper[count] = up;
        func[count] = fn;
        return count++;
      }
      if (upper[there] === up && func[there] === fn) return there;
      place = (place + 1) & (capacity - 1);
    }
  };
  // For frames with only folded frames above them: the outermost of those.
  const outermost = new Int32Array(options.fold !== null ? nodes : 1);
  const isTop = options.top ?? null;
  const inTop = new Uint8Array(isTop !== null ? nodes : 1); // only top frames from the root to here
  inTop[0] = 1;
  for (let i = 1; i < nodes; ++i) {
    if ((i & pauseMask) === 0) yield;
    if (live[i] === 0) continue;
    const f = frame[i]!;
    const fn = frameFunction[f]!;
    const above = parent[i]!;
    if (isTop !== null && inTop[above] === 1 && isTop[f] === 1) inTop[i] = 1;
    if (seen.length > 1) {
      let mask = seen[above]!;
      for (let k = 0; k < bits.length; ++k) if (options.filters[k]!.matches[fn] === 1) mask |= bits[k]!;
      seen[i] = mask;
      if (from >= 0 && (mask & bits[from]!) === 0) {
        viewOf[i] = 0; // above the frame from which the tree is shown
        continue;
      }
    }
    // Frames below the top become children of the root. A stack of top frames only keeps them.
    const up = isTop !== null && inTop[above] === 1 && inTop[i] === 0 ? 0 : viewOf[above]!;
    if (options.fold !== null && options.fold[f] === 1) {
      viewOf[i] = up;
      if (up === 0) outermost[i] = outermost[above] !== 0 ? outermost[above]! : i;
      continue;
    }
    viewOf[i] = nodeOf(up, fn);
  }
  const hides = options.filters.map((filter, k) => (filter.type === "hide" ? bits[k]! : 0)).reduce((a, b) => a | b, 0);
  for (let i = 0; i < nodes; ++i) {
    if (live[i] === 0) continue;
    if (seen.length > 1 && ((seen[i]! & wanted) !== wanted || (seen[i]! & hides) !== 0)) {
      viewOf[i] = -1;
    } else if (options.fold !== null && outermost[i] !== 0 && weightOf(columns, i) !== 0) {
      viewOf[i] = nodeOf(0, frameFunction[frame[outermost[i]!]!]!); // the whole stack was folded: keep one frame of it
    }
  }
  const self = columns.map(() => new Float64Array(count));
  for (let i = 0; i < nodes; ++i) {
    if ((i & pauseMask) === 0) yield;
    const to = viewOf[i]!;
    if (live[i] === 0 || to < 0) continue;
    for (let c = 0; c < columns.length; ++c) self[c]![to]! += columns[c]![i]!;
  }
  const own = options.side === undefined ? null : self[options.side]!.map(Math.abs);
  return yield* arrangeSteps(count, upper, func, self, viewOf, options.byValue, own);
}

/**
 * Returns the result of buildTree if nothing is filtered, folded or sorted by value: the first view of a report. The nodes are
 * already in preorder and siblings in the order of their functions, so equal siblings are neighbours. Only the children of merged
 * nodes must be sorted. Reads and writes everything from left to right. Returns null if negative values may cancel each other,
 * which only the general algorithm handles.
 */
function mergeInOrder(report: Report, columns: Float64Array[]): FlameTree | null {
  const { parent, frame, frameFunction } = report;
  const nodes = parent.length;
  const below = new Float64Array(nodes); // weight including the subtree
  const last = new Int32Array(nodes); // end of each subtree
  for (let i = nodes - 1; i >= 0; --i) {
    for (let c = 0; c < columns.length; ++c) if (columns[c]![i]! < 0) return null;
    below[i]! += weightOf(columns, i);
    if (last[i] === 0) last[i] = i + 1;
    if (i === 0) break;
    const up = parent[i]!;
    below[up]! += below[i]!;
    if (last[i]! > last[up]!) last[up] = last[i]!;
  }
  let most = 1;
  for (let i = 1; i < nodes; ++i) if (below[i]! > 0) ++most;
  const tree: FlameTree = {
    size: 0,
    parent: new Int32Array(most),
    end: new Int32Array(most),
    depth: new Int32Array(most),
    func: new Int32Array(most),
    self: columns.map(() => new Float64Array(most)),
    total: [],
    weight: new Float64Array(most),
    x: new Float64Array(most),
    maxDepth: 0,
    viewOf: new Int32Array(nodes).fill(-1),
  };
  const functionOf = (i: number) => (i === 0 ? -1 : frameFunction[frame[i]!]!);
  const same = new Int32Array(nodes); // the next node merged into the same one; 0: none
  const stack = new Int32Array(nodes); // first nodes of the groups to be written, the next one on top
  const parents = new Int32Array(nodes); // their parents in the new tree
  let top = 1;
  let size = 0;
  const children: number[] = [];
  while (top > 0) {
    const first = stack[--top]!;
    const at = size++;
    tree.parent[at] = parents[top]!;
    tree.func[at] = functionOf(first);
    children.length = 0;
    let members = 0;
    for (let i = first; ; i = same[i]!) {
      ++members;
      tree.viewOf[i] = at;
      for (let c = 0; c < columns.length; ++c) tree.self[c]![at]! += columns[c]![i]!;
      for (let k = i + 1; k < last[i]!; k = last[k]!) if (below[k]! > 0) children.push(k);
      if (same[i] === 0) break;
    }
    tree.weight[at] = weightOf(tree.self, at);
    if (members > 1) children.sort((a, b) => functionOf(a) - functionOf(b) || a - b);
    // In reverse, so that the first one is written next.
    for (let k = children.length - 1; k >= 0; --k) {
      const child = children[k]!;
      if (k > 0 && functionOf(children[k - 1]!) === functionOf(child)) {
        same[children[k - 1]!] = child;
        continue;
      }
      stack[top] = child;
      parents[top++] = at;
    }
  }
  return finish(tree, size);
}

/** Computes totals, depths, ends and positions from parents, functions, self values and weights in preorder. */
function finish(tree: FlameTree, size: number): FlameTree {
  const cut = <T extends Int32Array | Float64Array>(column: T): T => (column.length === size ? column : (column.slice(0, size) as T));
  tree.size = size;
  tree.parent = cut(tree.parent);
  tree.end = cut(tree.end);
  tree.depth = cut(tree.depth);
  tree.func = cut(tree.func);
  tree.weight = cut(tree.weight);
  tree.x = cut(tree.x);
  tree.self = tree.self.map(cut);
  tree.total = tree.self.map((column) => column.slice());
  const { parent, end, depth, weight, x } = tree;
  for (let i = size - 1; i >= 0; --i) {
    if (end[i] === 0) end[i] = i + 1;
    if (i === 0) break;
    const up = parent[i]!;
    if (end[i]! > end[up]!) end[up] = end[i]!;
    weight[up]! += weight[i]!;
    for (const total of tree.total) total[up]! += total[i]!;
  }
  const next = new Float64Array(size); // where the node's next child begins
  for (let i = 1; i < size; ++i) {
    const up = parent[i]!;
    depth[i] = depth[up]! + 1;
    if (depth[i]! > tree.maxDepth) tree.maxDepth = depth[i]!;
    x[i] = x[up]! + next[up]!;
    next[up]! += weight[i]!;
  }
  return tree;
}
