// Runs: chains of frames with one callee and no self value, drawn as one box. A server's stack has a dozen of them between main and
// the first branch, all of the same width.
//
//   main → aeMain → aeProcessEvents → … → call → {set, get}     becomes     main → [7 frames] → call → {set, get}
//
// The first and the last frame of a run keep their boxes. A run with fewer than two frames in between stays as it is.
import type { FlameTree } from "./tree";

export interface Runs {
  tree: FlameTree;
  of: Int32Array; // box → its node; for a run, the first node
  count: Int32Array; // box → number of frames in it
  box: Int32Array; // node → box
}

/** `apart`: nodes that must have boxes of their own; runs with one of them stay expanded. */
export function collapseRuns(full: FlameTree, apart: ReadonlySet<number>): Runs {
  const { size, end, weight } = full;
  const passes = (i: number) => end[i]! > i + 1 && end[i + 1] === end[i] && weight[i + 1]! >= weight[i]! * (1 - 1e-12);
  const box = new Int32Array(size);
  const of = new Int32Array(size);
  const count = new Int32Array(size);
  let boxes = 0;
  const single = (i: number) => {
    of[boxes] = i;
    count[boxes] = 1;
    box[i] = boxes++;
  };
  single(0);
  for (let i = 1; i < size; ) {
    let last = i;
    while (passes(last)) ++last;
    let between = last - i - 1;
    for (let k = i + 1; k < last && between >= 2; ++k) if (apart.has(k)) between = 0;
    single(i);
    if (between >= 2) {
      of[boxes] = i + 1;
      count[boxes] = between;
      for (let k = i + 1; k < last; ++k) box[k] = boxes;
      ++boxes;
    } else {
      for (let k = i + 1; k < last; ++k) single(k);
    }
    if (last > i) single(last);
    i = last + 1;
  }
  const tree: FlameTree = {
    size: boxes,
    parent: new Int32Array(boxes),
    end: new Int32Array(boxes),
    depth: new Int32Array(boxes),
    func: new Int32Array(boxes),
    self: full.self.map(() => new Float64Array(boxes)),
    total: full.total.map(() => new Float64Array(boxes)),
    weight: new Float64Array(boxes),
    x: new Float64Array(boxes),
    maxDepth: 0,
    viewOf: full.viewOf,
  };
  for (let b = 0; b < boxes; ++b) {
    const i = of[b]!;
    tree.func[b] = full.func[i]!;
    tree.weight[b] = weight[i]!;
    tree.x[b] = full.x[i]!;
    tree.end[b] = end[i]! < size ? box[end[i]!]! : boxes;
    for (let c = 0; c < full.self.length; ++c) {
      tree.self[c]![b] = full.self[c]![i]!;
      tree.total[c]![b] = full.total[c]![i]!;
    }
    if (b === 0) continue;
    tree.parent[b] = box[full.parent[i]!]!;
    tree.depth[b] = tree.depth[tree.parent[b]!]! + 1;
    if (tree.depth[b]! > tree.maxDepth) tree.maxDepth = tree.depth[b]!;
  }
  return { tree, of, count, box };
}
