// The call graph of the selection: one node per function and one edge per pair of caller and callee, cut to the important ones.
// Also computes the layout: layers from callers to callees, ordered so that few edges cross.
import { functionTable } from "./functions";
import type { FlameTree } from "./tree";

export interface GraphNode {
  func: number; // the innermost one of a chain
  chain: number[]; // functions with a single callee each, outermost first, that share a box; [func]: one alone
  self: number;
  total: number;
  heaviest: boolean; // on the heaviest path
  layer: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface GraphEdge {
  from: number; // index into nodes
  to: number;
  value: number;
  heaviest: boolean;
  points: [number, number][];
}

export interface CallGraph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  width: number;
  height: number;
  left: number; // number of functions that were cut
}

export interface GraphOptions {
  maxNodes: number;
  nodeFraction: number;
  edgeFraction: number;
}

/** Uses `column` of the tree's values. With two sides, the larger value decides what is drawn. */
export function callGraph(tree: FlameTree, options: GraphOptions): CallGraph {
  const whole = tree.weight[0]!;
  const rows = functionTable(tree).sort((a, b) => b.total[0]! - a.total[0]! || a.func - b.func);
  const kept = rows.filter((row) => Math.abs(row.total[0]!) >= options.nodeFraction * whole).slice(0, options.maxNodes);
  const index = new Map(kept.map((row, i) => [row.func, i]));
  let nodes: GraphNode[] = kept.map((row) => ({
    func: row.func,
    chain: [row.func],
    self: row.self[0]!,
    total: row.total[0]!,
    heaviest: false,
    layer: 0,
    x: 0,
    y: 0,
    width: 0,
    height: 0,
  }));
  // Edges between kept functions skip functions that were cut in between. Each edge counts once per stack.
  const values = new Map<number, number>();
  const covered = new Map<number, number>();
  const keptAbove = new Int32Array(tree.size).fill(-1);
  for (let i = 1; i < tree.size; ++i) {
    const up = tree.parent[i]!;
    const above = up === 0 ? -1 : (index.get(tree.func[up]!) ?? keptAbove[up]!);
    keptAbove[i] = above;
    const to = index.get(tree.func[i]!);
    if (to === undefined || above < 0 || above === to) continue;
    const key = above * 65536 + to;
    if ((covered.get(key) ?? 0) > i) continue;
    covered.set(key, tree.end[i]!);
    values.set(key, (values.get(key) ?? 0) + tree.total[0]![i]!);
  }
  let edges: GraphEdge[] = [...values]
    .filter(([, value]) => Math.abs(value) >= options.edgeFraction * whole)
    .map(([key, value]) => ({ from: Math.floor(key / 65536), to: key % 65536, value, heaviest: false, points: [] }));
  edges.sort((a, b) => b.value - a.value);
  markHeaviest(nodes, edges, tree, index);
  [nodes, edges] = joinChains(nodes, edges);
  layers(nodes, edges);
  const size = place(nodes, edges);
  edges = edges.filter((edge) => edge.points.length > 0);
  return { nodes, edges, ...size, left: rows.length - kept.length };
}

/** Marks the path from the root that always follows the heaviest child. */
function markHeaviest(nodes: GraphNode[], edges: GraphEdge[], tree: FlameTree, index: Map<number, number>): void {
  let at = 0;
  let last = -1;
  for (;;) {
    let best = -1;
    for (let i = at + 1; i < tree.end[at]!; i = tree.end[i]!) if (best < 0 || tree.weight[i]! > tree.weight[best]!) best = i;
    if (best < 0 || tree.weight[best]! < Math.abs(tree.self[0]![at]!)) return;
    at = best;
    const node = index.get(tree.func[at]!);
    if (node === undefined) continue;
    nodes[node]!.heaviest = true;
    const edge = edges.find((e) => e.from === last && e.to === node);
    if (edge !== undefined) edge.heaviest = true;
    last = node;
  }
}

const leastChain = 3;

/** Joins chains of functions into one box: each function is the only callee of its caller, and has all of its value. */
function joinChains(nodes: GraphNode[], edges: GraphEdge[]): [GraphNode[], GraphEdge[]] {
  const out = nodes.map(() => [] as number[]);
  const into = nodes.map(() => [] as number[]);
  for (const { from, to } of edges) {
    out[from]!.push(to);
    into[to]!.push(from);
  }
  const next = (i: number): number => {
    const [to, second] = out[i]!;
    if (to === undefined || second !== undefined || into[to]!.length !== 1) return -1;
    return Math.abs(nodes[to]!.total - nodes[i]!.total) <= 1e-9 * Math.abs(nodes[i]!.total) ? to : -1;
  };
  const follows = new Set(nodes.map((_, i) => next(i)).filter((to) => to >= 0));
  const place = nodes.map((_, i) => i);
  const gone = new Set<number>();
  nodes.forEach((_, first) => {
    if (follows.has(first)) return;
    const chain = [first];
    for (let i = next(first); i >= 0; i = next(i)) chain.push(i);
    if (chain.length < leastChain) return;
    const last = chain[chain.length - 1]!;
    nodes[last]!.chain = chain.map((i) => nodes[i]!.func);
    for (const i of chain.slice(0, -1)) {
      nodes[last]!.heaviest ||= nodes[i]!.heaviest;
      gone.add(i);
      place[i] = last;
    }
  });
  const kept = nodes.filter((_, i) => !gone.has(i));
  const number = new Map(nodes.map((node, i) => [i, kept.indexOf(node)]));
  const at = (i: number) => number.get(place[i]!)!;
  return [kept, edges.map((edge) => ({ ...edge, from: at(edge.from), to: at(edge.to) })).filter(({ from, to }, i) => from !== to || edges[i]!.from === edges[i]!.to)];
}

/** Longest path from the top over edges that close no circle; heavier edges are taken first. */
function layers(nodes: GraphNode[], edges: GraphEdge[]): void {
  const down: number[][] = nodes.map(() => []);
  const reaches = (from: number, to: number): boolean => {
    const seen = new Set<number>([from]);
    const open = [from];
    while (open.length > 0) {
      const node = open.pop()!;
      if (node === to) return true;
      for (const next of down[node]!) if (!seen.has(next)) seen.add(next), open.push(next);
    }
    return false;
  };
  const forward: GraphEdge[] = [];
  for (const edge of edges) {
    if (edge.from === edge.to || reaches(edge.to, edge.from)) continue;
    down[edge.from]!.push(edge.to);
    forward.push(edge);
  }
  for (let round = 0; round < nodes.length; ++round) {
    let moved = false;
    for (const edge of forward) {
      if (nodes[edge.to]!.layer <= nodes[edge.from]!.layer) {
        nodes[edge.to]!.layer = nodes[edge.from]!.layer + 1;
        moved = true;
      }
    }
    if (!moved) break;
  }
}

const rowGap = 40;
const nodeWidth = 240; // holds "100.25MiB · 51.24% · self 100.25MiB" in 12 px
export const lineHeight = 16;
const nodeHeight = 44;
const columnGap = 22;

function place(nodes: GraphNode[], edges: GraphEdge[]): { width: number; height: number } {
  const byLayer: number[][] = [];
  nodes.forEach((node, i) => {
    node.width = nodeWidth;
    node.height = nodeHeight + (node.chain.length > 1 ? 2 * lineHeight : 0);
    (byLayer[node.layer] ??= []).push(i);
  });
  // Order by the mean position of neighbours, a few times down and up.
  const position = new Float64Array(nodes.length);
  for (const layer of byLayer) layer?.forEach((node, i) => (position[node] = i));
  for (let round = 0; round < 8; ++round) {
    const order = round % 2 === 0 ? byLayer : [...byLayer].reverse();
    for (const layer of order) {
      if (layer === undefined) continue;
      const mean = (node: number) => {
        let sum = 0;
        let weight = 0;
        for (const edge of edges) {
          const other = round % 2 === 0 ? (edge.to === node ? edge.from : -1) : edge.from === node ? edge.to : -1;
          if (other >= 0) (sum += position[other]! * edge.value), (weight += edge.value);
        }
        return weight > 0 ? sum / weight : position[node]!;
      };
      const means = new Map(layer.map((node) => [node, mean(node)]));
      layer.sort((a, b) => means.get(a)! - means.get(b)!);
      layer.forEach((node, i) => (position[node] = i - layer.length / 2));
    }
  }
  const widest = Math.max(1, ...byLayer.map((layer) => layer?.length ?? 0));
  const width = widest * (nodeWidth + columnGap) + columnGap;
  let y = 16;
  for (const layer of byLayer) {
    if (layer === undefined) continue;
    const used = layer.length * (nodeWidth + columnGap) - columnGap;
    layer.forEach((node, i) => {
      nodes[node]!.x = (width - used) / 2 + i * (nodeWidth + columnGap);
      nodes[node]!.y = y;
    });
    y += Math.max(...layer.map((node) => nodes[node]!.height)) + rowGap;
  }
  for (const edge of edges) {
    const from = nodes[edge.from]!;
    const to = nodes[edge.to]!;
    edge.points =
      to.layer > from.layer
        ? [
            [from.x + from.width / 2, from.y + from.height],
            [to.x + to.width / 2, to.y],
          ]
        : [
            [from.x + from.width, from.y + from.height / 2],
            [to.x + to.width, to.y + to.height / 2],
          ];
  }
  return { width, height: y - rowGap + 16 };
}
