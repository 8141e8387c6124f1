// The flame graph view: the canvas, its scrolling, tooltip, mouse and keys, and the tree that screen readers read in its
// place. What is drawn is decided in canvas/flame_canvas.ts; what a box means, in core/.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FlameCanvas, rowHeight, smallFrames, type Hit } from "../canvas/flame_canvas";
import { metricHelp } from "../core/metrics";
import { nodeAt, pathOf, type FlameTree } from "../core/tree";
import { nameOf, percentText, signedText, valueText, type App } from "./app_api";
import { changeOf, colouring } from "./colours";

const themes = {
  light: { text: "#1c1b19", muted: "#e8e6e1", mutedText: "#57534c", faded: "#efedea", fadedText: "#7a766f", line: "#a9a49b", hatch: "#d8d4cc", mark: "#0b57d0" },
  dark: { text: "#14130f", muted: "#34353a", mutedText: "#b9bac0", faded: "#2b2c31", fadedText: "#8d8f96", line: "#6a6c74", hatch: "#45474e", mark: "#8ab4ff" },
};

interface Props {
  app: App;
  tree: FlameTree;
  zoom: number;
  flame: boolean;
  label: string;
  height?: number;
  alone?: boolean; // without what stands above the zoomed frame
  onOpen: (node: number) => void; // a click or Enter on a frame
}

export function FlameGraph({ app, tree, zoom, flame, label, height, alone = false, onOpen }: Props) {
  const { model, state, dark } = app;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawer = useRef<FlameCanvas | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  // Each belongs to the tree that it was taken from: a key may bring another one while the mouse lies still.
  const [hovered, setHover] = useState<{ tree: FlameTree; hit: Hit; x: number; y: number } | null>(null);
  const [listed, setSmall] = useState<{ tree: FlameTree; nodes: number[] } | null>(null);
  const [lastCursor, setCursor] = useState({ tree, node: zoom });
  const hover = hovered?.tree === tree ? hovered : null;
  const small = listed?.tree === tree ? listed.nodes : null;
  const cursor = lastCursor.tree === tree ? lastCursor.node : zoom;
  const [focused, setFocused] = useState(false);
  const matches = model.matches(state.search);
  const { fill } = colouring(model, state, tree, dark);
  const compared = state.compare !== null && tree.total.length > 1;

  useEffect(() => {
    setSmall(null);
    setHover(null);
    setCursor({ tree, node: zoom });
  }, [tree, zoom]);
  useLayoutEffect(() => {
    const element = scroller.current!;
    const observe = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    observe();
    const observer = new ResizeObserver(observe);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const labelOf = useCallback(
    (node: number) => {
      if (node === 0) return rootLabel(app, tree);
      const name = nameOf(app, tree.func[node]!);
      return compared ? mark(tree, node) + name : tree.total[0]![node]! < 0 ? `− ${name}` : name;
    },
    [app.state, tree],
  );

  drawer.current ??= canvas.current === null ? null : new FlameCanvas(canvas.current);
  const whole = drawer.current === null || size.width === 0 ? rowHeight : drawer.current.measure(tree, zoom, size.width, alone);
  const draw = useCallback(() => {
    if (canvas.current === null || size.width === 0) return;
    drawer.current ??= new FlameCanvas(canvas.current);
    const total = drawer.current.measure(tree, zoom, size.width, alone);
    const shown = Math.max(rowHeight, Math.min(size.height, total));
    drawer.current.draw({
      tree,
      zoom: Math.min(zoom, tree.size - 1),
      flame,
      alone,
      scrollTop: Math.max(0, Math.min(scroller.current!.scrollTop, total - shown)),
      width: size.width,
      height: shown,
      label: labelOf,
      short: (node) => (node === 0 ? rootLabel(app, tree) : (compared ? mark(tree, node) : tree.total[0]![node]! < 0 ? "− " : "") + model.shortName(tree.func[node]!)),
      fill,
      matches,
      marked: focused ? cursor : -1,
      theme: { ...themes[dark ? "dark" : "light"], font: "12px system-ui, 'Segoe UI', 'Noto Sans', sans-serif" },
    });
  }, [tree, zoom, flame, size, matches, dark, state, cursor, focused]);
  useLayoutEffect(draw, [draw]);
  useLayoutEffect(() => {
    // A flame graph begins at its foot.
    if (flame && scroller.current !== null) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [flame, tree, zoom, size.height]);

  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return drawer.current?.hit(event.clientX - box.left, event.clientY - box.top) ?? null;
  };
  const open = (hit: Hit | null) => {
    if (hit === null) return;
    if (hit.small !== null) setSmall({ tree, nodes: smallFrames(tree, hit) });
    else onOpen(hit.node);
  };

  const move = (event: KeyboardEvent) => {
    const parent = tree.parent[cursor]!;
    let next = cursor;
    const down = flame ? "ArrowUp" : "ArrowDown";
    const up = flame ? "ArrowDown" : "ArrowUp";
    if (event.key === down) next = heaviestChild(tree, cursor);
    else if (event.key === up) next = parent;
    else if (event.key === "ArrowRight") next = cursor !== 0 && tree.end[cursor]! < tree.end[parent]! ? tree.end[cursor]! : cursor;
    else if (event.key === "ArrowLeft") next = siblingBefore(tree, cursor);
    else if (event.key === "Home") next = 0;
    else if (event.key === "Enter" || event.key === " ") onOpen(cursor);
    else return;
    event.preventDefault();
    event.stopPropagation();
    setCursor({ tree, node: next });
    const top = flame ? whole - (tree.depth[next]! + 1) * rowHeight : tree.depth[next]! * rowHeight;
    const element = scroller.current!;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  };

  const id = flame ? "flame" : "icicle";
  return (
    <div class="flame-frame">
      <div
        class="flame-scroll"
        ref={scroller}
        style={height === undefined ? undefined : { height: `${height}px`, flex: "none" }}
        tabIndex={0}
        role="tree"
        aria-label={label}
        aria-activedescendant={`${id}-${cursor}`}
        onKeyDown={move}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onScroll={draw}
        onMouseMove={(event) => {
          const hit = at(event);
          setHover(hit === null ? null : { tree, hit, x: event.clientX, y: event.clientY });
        }}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => open(at(event))}
      >
        <div class="flame-space" style={{ height: `${whole}px` }} role="presentation">
          <canvas ref={canvas} aria-hidden="true" data-testid="flame-canvas" />
        </div>
        <Twin app={app} tree={tree} cursor={cursor} id={id} />
      </div>
      {hover !== null && <HoverBox hit={hover.hit} canvas={canvas.current} />}
      {hover !== null && <Tooltip app={app} tree={tree} hit={hover.hit} x={hover.x} y={hover.y} />}
      {small !== null && (
        <div class="popover small-frames" role="dialog" aria-label={`${small.length} small frames`}>
          <header>
            <b>{small.length} small frames</b>
            <button class="icon" aria-label="Close" onClick={() => setSmall(null)}>
              ×
            </button>
          </header>
          <ul>
            {small.slice(0, 200).map((node) => (
              <li key={node}>
                <button onClick={() => onOpen(node)}>
                  <span class="num">{valueText(app, tree.total[0]![node]!)}</span> {nameOf(app, tree.func[node]!)}
                </button>
              </li>
            ))}
            {small.length > 200 && <li class="muted">and {small.length - 200} more, smaller ones</li>}
          </ul>
        </div>
      )}
    </div>
  );
}

/** "▲ " before a name, so that a difference is told without its colour. */
function mark(tree: FlameTree, node: number): string {
  const change = changeOf(tree.total[0]![node]!, tree.total[1]![node]!, tree.total[2]?.[node] ?? 0);
  return { more: "▲ ", less: "▼ ", added: "+ ", removed: "✕ ", same: "" }[change];
}

/** "redis-server (pid 42) · Memory in use · 110.68MiB", with what was averaged. */
function rootLabel(app: App, tree: FlameTree): string {
  const { model, state } = app;
  const metric = model.metric(state);
  const total = valueText(app, tree.total[0]![0]!);
  const values = tree.total.length > 1 ? `${valueText(app, tree.total[1]![0]!)} → ${total}` : total;
  return [model.programs(state), metricHelp(metric.kind, metric.name).title, values, model.averaged(state)].filter((text) => text !== "").join(" · ");
}

function heaviestChild(tree: FlameTree, node: number): number {
  let best = node;
  for (let i = node + 1; i < tree.end[node]!; i = tree.end[i]!) if (best === node || tree.weight[i]! > tree.weight[best]!) best = i;
  return best;
}

function siblingBefore(tree: FlameTree, node: number): number {
  let last = node;
  for (let i = tree.parent[node]! + 1; i < node; i = tree.end[i]!) last = i;
  return node === 0 ? 0 : last;
}

function HoverBox({ hit, canvas }: { hit: Hit; canvas: HTMLCanvasElement | null }) {
  if (canvas === null) return null;
  const box = canvas.getBoundingClientRect();
  return (
    <div
      class="hover-box"
      style={{
        left: `${box.left + hit.left}px`,
        top: `${box.top + hit.top}px`,
        width: `${Math.max(2, hit.width - 1)}px`,
        height: `${rowHeight - 1}px`,
      }}
    />
  );
}

/** What a frame is and holds, in words: the tooltip, and what a screen reader says. */
export function describe(app: App, tree: FlameTree, node: number): string {
  const whole = tree.total[0]![0]!;
  const total = tree.total[0]![node]!;
  const self = tree.self[0]![node]!;
  return `${nameOf(app, tree.func[node]!)}: total ${valueText(app, total)}, ${percentText(total, whole)}; self ${valueText(app, self)}, ${percentText(self, whole)}`;
}

function Tooltip({ app, tree, hit, x, y }: { app: App; tree: FlameTree; hit: Hit; x: number; y: number }) {
  const left = Math.min(x + 14, window.innerWidth - 440);
  const top = y + 150 > window.innerHeight ? y - 130 : y + 18;
  const style = { left: `${Math.max(4, left)}px`, top: `${top}px` };
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
  const node = hit.node;
  const func = tree.func[node]!;
  const whole = tree.total[0]![0]!;
  const total = tree.total[0]![node]!;
  const self = tree.self[0]![node]!;
  const place = app.model.place(func);
  const object = app.model.object(func);
  return (
    <div class="tooltip" role="tooltip" style={style}>
      <b class="name">{node === 0 ? rootLabel(app, tree) : nameOf(app, func)}</b>
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
function Twin({ app, tree, cursor, id }: { app: App; tree: FlameTree; cursor: number; id: string }) {
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
          {describe(app, tree, node)}
        </div>
      ))}
    </div>
  );
}

export function FlameView({ app }: { app: App }) {
  const { model, state } = app;
  const tree = model.flame(state);
  const zoom = nodeAt(tree, state.zoom);
  const { legend } = colouring(model, state, tree, app.dark);
  const open = (node: number) => {
    if (node === 0) app.set({ zoom: [], selected: -1 });
    else app.set({ zoom: pathOf(tree, node), selected: tree.func[node]! });
  };
  return (
    <section class="view flame-view" aria-label="Flame graph">
      <div class="view-options">
        <button
          class="toggle"
          aria-pressed={state.flame}
          title="Root below or above (i)"
          onClick={() => app.set({ flame: !state.flame })}
        >
          {state.flame ? "Flame" : "Icicle"}
        </button>
        <button
          class="toggle"
          aria-pressed={state.inverted}
          title="Who holds it first, then their callers (b)"
          onClick={() => app.set({ inverted: !state.inverted, zoom: [] })}
        >
          Callers below
        </button>
        <button
          class="toggle"
          aria-pressed={state.byValue}
          title="Largest first, or by name so that two runs look alike (v)"
          onClick={() => app.set({ byValue: !state.byValue })}
        >
          Largest first
        </button>
        {state.compare !== null && (
          <label>
            width{" "}
            <select value={state.side} onChange={(event) => app.set({ side: event.currentTarget.value as "both" })}>
              <option value="both">the larger side</option>
              <option value="head">head</option>
              <option value="base">base</option>
            </select>
          </label>
        )}
        <span class="legend" role="group" aria-label="Colours">
          {legend.map(({ colour, text }) => (
            <span key={text}>
              <i style={{ background: colour }} />
              {text}
            </span>
          ))}
        </span>
        {zoom !== 0 && (
          <button class="quiet" onClick={() => app.set({ zoom: [] })} title="Show everything again (Esc)">
            Reset zoom
          </button>
        )}
      </div>
      {tree.weight[0]! > 0 ? (
        <FlameGraph app={app} tree={tree} zoom={zoom} flame={state.flame} label="Flame graph" onOpen={open} />
      ) : (
        <Nothing app={app} />
      )}
    </section>
  );
}

/** When there is nothing to draw: why, and the way out. */
export function Nothing({ app }: { app: App }) {
  const { state } = app;
  const filtered = state.chips.length > 0 || state.labels.length > 0 || state.weight !== null || state.from >= 0;
  return (
    <div class="empty" role="status">
      <p>
        <b>Nothing to show.</b>
      </p>
      {filtered ? (
        <>
          <p>No stack passes all filters.</p>
          <button onClick={() => app.set({ chips: [], labels: [], weight: null, from: -1, to: -1, zoom: [] })}>Remove all filters</button>
        </>
      ) : (
        <p>
          This metric has no samples here. Choose another one above, or sample more often: <code>holdfast run --heap-interval 64KiB</code>.
        </p>
      )}
    </div>
  );
}
