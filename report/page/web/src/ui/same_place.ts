// A live page has a new tree every second. What belongs to a place in one tree (the frame under the pointer, an open card, an
// expanded branch) moves to the same place in the next.
import { nodeAt, pathOf, type FlameTree } from "../core/tree";
import type { Model } from "./model";

export interface TreeOf {
  tree: FlameTree;
  model: Model;
}

/** Returns the node with the same functions, or 0. */
export function samePlace(from: TreeOf, to: TreeOf, node: number): number {
  if (node <= 0) return 0;
  const path = pathOf(from.tree, node);
  const isSame = from.model.report.names === to.model.report.names;
  return nodeAt(to.tree, isSame ? path : path.map((func) => to.model.names.find(from.model.names.of(func))));
}

export const samePlaces = (from: TreeOf, to: TreeOf, nodes: Iterable<number>): Set<number> =>
  new Set([...nodes].flatMap((node) => (node === 0 ? [0] : [samePlace(from, to, node)].filter((found) => found > 0))));
