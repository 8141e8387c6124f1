// Elements over and beside the flame graph's canvas: the tooltip, the box under the pointer, and the tree for those who do
// not see the canvas.
import { smallFrames, type Hit } from "../canvas/flame_canvas";
import { metricHelp } from "../core/metrics";
import type { FlameTree } from "../core/tree";
import { percentText, signedText, valueText, type App } from "./app_api";
import { changeOf } from "./colours";

/** Returns "redis-server (pid 42) · Memory in use · 110.68MiB", with what was averaged. */
export function rootLabel(app: App, tree: FlameTree): string {
  const { model, state } = app;
  const metric = model.metric(state);
  const total = valueText(app, tree.total[0]![0]!);
  const values = tree.total.length > 1 ? `${valueText(app, tree.total[1]![0]!)} → ${total}` : total;
  return [model.programs(state), metricHelp(metric.kind, metric.name).title, values, model.averaged(state)].filter((text) => text !== "").join(" · ");
}

export function HoverBox({ hit, canvas, row }: { hit: Hit; canvas: HTMLCanvasElement | null; row: number }) {
  if (canvas === null) return null;
  const box = canvas.getBoundingClientRect();
  return (
    <div
      class="hover-box"
      style={{
        left: `${box.left + hit.left}px`,
        top: `${box.top + hit.top}px`,
        width: `${Math.max(2, hit.width - 1)}px`,
        height: `${row - 1}px`,
      }}
    />
  );
}

/** What a frame is and holds, in words: the tooltip, and what a screen reader says. */
function describe(app: App, tree: FlameTree, whole: number, node: number, name: string): string {
  const total = tree.total[0]![node]!;
  const self = tree.self[0]![node]!;
  return `${name}: total ${valueText(app, total)}, ${percentText(total, whole)}; self ${valueText(app, self)}, ${percentText(self, whole)}`;
}

/**
 * `run`: the functions of a box that represents several frames. `row`: the position of its row in the window. `below`: callees are
 * drawn above the box. The description of a frame is on the side of its callers, so that its callees remain visible.
 */
export function Tooltip({ app, tree, whole, hit, x, row, below, run }: { app: App; tree: FlameTree; whole: number; hit: Hit; x: number; row: [top: number, bottom: number]; below: boolean; run: number[] }) {
  const left = Math.max(4, Math.min(x + 14, window.innerWidth - 440));
  const [top, bottom] = row;
  const style = below ? { left: `${left}px`, top: `${bottom + 4}px` } : { left: `${left}px`, bottom: `${window.innerHeight - top + 4}px` };
  if (hit.small !== null) {
    const nodes = smallFrames(tree, hit);
    const sum = nodes.reduce((a, node) => a + tree.total[0]![node]!, 0);
    return (
      <div class="tooltip" role="tooltip" style={style}>
        <b>{nodes.length} small frames</b>
        <div>{valueText(app, sum)} together. Click to list them.</div>
      </div>
    );
  }
  if (run.length > 1) {
    return (
      <div class="tooltip" role="tooltip" style={style}>
        <b>{run.length} frames with one callee each</b>
        <ol class="run">
          {run.slice(0, 12).map((func, i) => (
            <li key={i}>{app.model.shortName(func)}</li>
          ))}
          {run.length > 12 && <li class="muted">and {run.length - 12} more</li>}
        </ol>
        <div class="muted">Click to show each function.</div>
      </div>
    );
  }
  const node = hit.node;
  const func = tree.func[node]!;
  const total = tree.total[0]![node]!;
  const self = tree.self[0]![node]!;
  const place = app.model.place(func);
  const object = app.model.object(func);
  return (
    <div class="tooltip" role="tooltip" style={style}>
      <b class="name">{node === 0 ? rootLabel(app, tree) : app.model.shortName(func)}</b>
      {(place !== "" || object !== "") && <div class="muted">{[place, object].filter((t) => t !== "").join(" · ")}</div>}
      <table>
        <tbody>
          <tr>
            <th scope="row">total</th>
            <td>{valueText(app, total)}</td>
            <td>{percentText(total, whole)}</td>
          </tr>
          <tr>
            <th scope="row">self</th>
            <td>{valueText(app, self)}</td>
            <td>{percentText(self, whole)}</td>
          </tr>
          {tree.total.length > 1 && (
            <tr>
              <th scope="row">was</th>
              <td>{valueText(app, tree.total[1]![node]!)}</td>
              <td>{signedText(app, total - tree.total[1]![node]!)}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** The canvas for those who do not see it: the way to the present frame, its siblings and its children. */
export function Twin({ app, tree, whole, cursor, id, nameOfBox }: { app: App; tree: FlameTree; whole: number; cursor: number; id: string; nameOfBox: (node: number) => string }) {
  const rows: { node: number; position: number; count: number }[] = [];
  const path: number[] = [];
  for (let i = cursor; i !== 0; i = tree.parent[i]!) path.push(i);
  path.push(0);
  for (const node of path.reverse()) if (node !== cursor) rows.push({ node, position: 1, count: 1 });
  const siblings: number[] = [];
  if (cursor === 0) siblings.push(0);
  else for (let i = tree.parent[cursor]! + 1; i < tree.end[tree.parent[cursor]!]! && siblings.length < 2000; i = tree.end[i]!) siblings.push(i);
  const here = siblings.indexOf(cursor);
  siblings.forEach((node, i) => {
    if (Math.abs(i - here) <= 20) rows.push({ node, position: i + 1, count: siblings.length });
    if (node === cursor) {
      let children = 0;
      for (let k = cursor + 1; k < tree.end[cursor]! && children < 20; k = tree.end[k]!) rows.push({ node: k, position: ++children, count: -1 });
    }
  });
  return (
    <div class="visually-hidden" role="group">
      {rows.map(({ node, position, count }) => (
        <div
          role="treeitem"
          id={`${id}-${node}`}
          key={node}
          aria-level={tree.depth[node]! + 1}
          aria-posinset={position}
          aria-setsize={count}
          aria-selected={node === cursor}
          aria-expanded={tree.end[node]! > node + 1 ? node <= cursor : undefined}
        >
          {describe(app, tree, whole, node, nameOfBox(node))}
        </div>
      ))}
    </div>
  );
}

/** Returns "▲ " for a name, so that differences are visible without colour. */
export function mark(tree: FlameTree, node: number): string {
  const change = changeOf(tree.total[0]![node]!, tree.total[1]![node]!, tree.total[2]?.[node] ?? 0);
  return { more: "▲ ", less: "▼ ", added: "+ ", removed: "✕ ", same: "" }[change];
}

export function heaviestChild(tree: FlameTree, node: number): number {
  let best = node;
  for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) if (best === node || tree.weight[i]! > tree.weight[best]!) best = i;
  return best;
}

export function siblingBefore(tree: FlameTree, node: number): number {
  let last = node;
  for (let i = tree.parent[node]! + 1; i < node; i = tree.end[i]!) last = i;
  return node === 0 ? 0 : last;
}
