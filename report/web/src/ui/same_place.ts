// A live page has another tree every second. What belongs to a place in one (the frame under the pointer, an open card, an opened
// branch) goes on at the same place of the next.
import { nodeAt, pathOf, type FlameTree } from "../core/tree";
import type { Model } from "./model";

export interface TreeOf {
  tree: FlameTree;
  model: Model;
}

/** The node of the same functions; 0: there is none. */
export function samePlace(from: TreeOf, to: TreeOf, node: number): number {
  if (node <= 0) return 0;
  const path = pathOf(from.tree, node);
  const isSame = from.model.report.names === to.model.report.names;
  return nodeAt(to.tree, isSame ? path : path.map((func) => to.model.names.find(from.model.names.of(func))));
}

export const samePlaces = (from: TreeOf, to: TreeOf, nodes: Iterable<number>): Set<number> =>
  new Set([...nodes].flatMap((node) => (node === 0 ? [0] : [samePlace(from, to, node)].filter((found) => found > 0))));
