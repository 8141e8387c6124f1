// The call graph of the selection: one box per function; the width of an edge shows its value.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { callGraph, lineHeight } from "../core/graph";
import { nameOf, percentText, valueText, type App } from "./app_api";
import { Nothing } from "./flame";
import { saveSvg } from "./save_svg";

const arrow = 11; // pixels, wider than the widest line

export function GraphView({ app }: { app: App }) {
  const { model, state } = app;
  const tree = model.tree(state);
  const { graphNodes: nodes, graphCut: cut } = state;
  const graph = useMemo(
    () => callGraph(tree, { maxNodes: nodes, nodeFraction: cut, edgeFraction: cut / 5 }),
    [tree, nodes, cut],
  );
  const whole = model.whole(state);
  const widest = tree.weight[0]! || 1;
  const trim = (text: string, most: number) => (text.length > most ? `…${text.slice(1 - most)}` : text);
  const frame = useRef<HTMLDivElement>(null);
  const svg = useRef<SVGSVGElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const observe = () => frame.current !== null && setSize({ width: frame.current.clientWidth, height: frame.current.clientHeight });
    observe();
    const observer = new ResizeObserver(observe);
    if (frame.current !== null) observer.observe(frame.current);
    return () => observer.disconnect();
  }, [graph.nodes.length === 0]);
  // Fit all of it, without enlarging.
  const fitted = Math.min(1, size.width / graph.width, size.height / graph.height) || 1;
  const [lastMoved, setLastMoved] = useState<{ graph: unknown; model: unknown; scale: number; x: number; y: number } | null>(null);
  const setMoved = (to: { graph: unknown; scale: number; x: number; y: number } | null) => setLastMoved(to === null ? null : { ...to, model });
  // The next moment of a live page keeps the position.
  const moved = lastMoved !== null && lastMoved.model !== model ? { ...lastMoved, graph } : lastMoved;
  useEffect(() => setLastMoved(moved === null ? null : { ...moved, model }), [model]);
  const isMoved = moved?.graph === graph;
  const { scale, x, y } = isMoved ? moved : { scale: fitted, x: (graph.width - size.width / fitted) / 2, y: 0 };
  const zoom = (by: number, atX = size.width / 2, atY = size.height / 2) => {
    const next = Math.max(fitted / 2, Math.min(4, scale * by));
    setMoved({ graph, scale: next, x: x + atX / scale - atX / next, y: y + atY / scale - atY / next });
  };
  const wheel = useRef<(event: WheelEvent) => void>(() => {});
  wheel.current = (event) => {
    if (event.shiftKey) return;
    event.preventDefault();
    const box = frame.current!.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0018), event.clientX - box.left, event.clientY - box.top);
  };
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    const element = frame.current;
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, [graph.nodes.length === 0]);
  const drag = useRef<{ px: number; py: number; x: number; y: number; moved: boolean } | null>(null);
  if (graph.nodes.length === 0) return <Nothing app={app} />;
  return (
    <section class="view" aria-label="Call graph">
      <div class="view-options">
        <label>
          functions{" "}
          <select value={String(nodes)} onChange={(event) => app.set({ graphNodes: Number(event.currentTarget.value) })}>
            {[15, 30, 60, 120].map((n) => (
              <option key={n}>{n}</option>
            ))}
          </select>
        </label>
        <label>
          at least{" "}
          <select value={String(cut)} onChange={(event) => app.set({ graphCut: Number(event.currentTarget.value) })}>
            <option value="0">all</option>
            <option value="0.001">0.1 %</option>
            <option value="0.01">1 %</option>
            <option value="0.05">5 %</option>
          </select>
        </label>
        <span class="sides" role="group" aria-label="Size">
          <button onClick={() => zoom(1 / 1.4)} aria-label="Smaller">
            −
          </button>
          <button onClick={() => setMoved(null)} aria-pressed={!isMoved}>
            Fit
          </button>
          <button onClick={() => zoom(1.4)} aria-label="Larger">
            +
          </button>
        </span>
        <button onClick={() => saveSvg(svg.current!, graph, `${model.programs(state).replace(/[^\w.-]+/g, "_")}.svg`)}>Save SVG</button>
        <span class="muted graph-cut">
          {graph.left > 0 ? `${graph.left} smaller ${graph.left === 1 ? "function is" : "functions are"} not drawn. ` : ""}The heaviest path is marked.
        </span>
      </div>
      <div
        class="graph-frame"
        ref={frame}
        onPointerDown={(event) => (drag.current = event.button === 0 ? { px: event.clientX, py: event.clientY, x, y, moved: false } : null)}
        onPointerMove={(event) => {
          const from = drag.current;
          if (from === null || event.buttons !== 1) return;
          from.moved ||= Math.hypot(event.clientX - from.px, event.clientY - from.py) > 4;
          if (from.moved) setMoved({ graph, scale, x: from.x - (event.clientX - from.px) / scale, y: from.y - (event.clientY - from.py) / scale });
        }}
      >
      <svg
        class="graph"
        ref={svg}
        width={size.width}
        height={size.height}
        viewBox={`${x} ${y} ${Math.max(1, size.width / scale)} ${Math.max(1, size.height / scale)}`}
        data-scale={scale.toFixed(3)}
        role="group"
        aria-label={`Call graph of ${graph.nodes.length} functions`}
      >
        <defs>
          {["", "heaviest"].map((kind) => (
            <marker
              key={kind}
              id={`arrow${kind}`}
              viewBox="0 0 8 8"
              refX="0"
              refY="4"
              markerWidth={arrow}
              markerHeight={arrow}
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0 0L8 4L0 8z" class={`arrow ${kind}`} />
            </marker>
          ))}
        </defs>
        {graph.edges.map((edge) => {
          const [[x1, y1], [x2, y2]] = edge.points as [[number, number], [number, number]];
          const back = y2 <= y1;
          const middle = (y1 + y2) / 2;
          const bow = Math.max(x1, x2) + 40;
          // The line ends where its arrow begins.
          const d = back
            ? `M${x1} ${y1}C${bow} ${y1} ${bow} ${y2} ${x2 + arrow} ${y2}`
            : `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - arrow}`;
          const share = Math.abs(edge.value) / widest;
          return (
            <g key={`${edge.from} ${edge.to}`} class={edge.heaviest ? "edge heaviest" : "edge"}>
              <path d={d} stroke-width={1 + 5 * Math.min(1, share)} marker-end={`url(#arrow${edge.heaviest ? "heaviest" : ""})`}>
                <title>
                  {model.shortName(graph.nodes[edge.from]!.func)} → {model.shortName(graph.nodes[edge.to]!.chain[0]!)}: {valueText(app, edge.value)} (
                  {percentText(edge.value, whole)})
                </title>
              </path>
              {share > 0.05 && !back && (
                <text x={(x1 + x2) / 2 + 6} y={middle + 3}>
                  {valueText(app, edge.value)}
                </text>
              )}
            </g>
          );
        })}
        {graph.nodes.map((node) => {
          const open = () => app.set({ selected: node.func });
          // A chain shows its outermost function, the number of functions between, and the innermost.
          const between = node.chain.length - 2;
          const lines = node.chain.length === 1 ? [model.shortName(node.func)] : [model.shortName(node.chain[0]!), `⋮ ${between} more`, model.shortName(node.func)];
          const below = (lines.length - 1) * lineHeight;
          const values = `${valueText(app, node.total)} · ${percentText(node.total, whole)}${node.self !== 0 ? ` · self ${valueText(app, node.self)}` : ""}`;
          const name = node.chain.map((func) => nameOf(app, func)).join(" →\n");
          return (
            <g
              key={node.func}
              class={`node ${node.heaviest ? "heaviest" : ""} ${node.chain.includes(state.selected) ? "selected" : ""} ${node.chain.length > 1 ? "chain" : ""}`}
              transform={`translate(${node.x} ${node.y})`}
              role="button"
              tabindex={0} // an SVG attribute, which is case-sensitive
              onClick={() => drag.current?.moved !== true && open()}
              onFocus={() => {
                // Scroll into view if the keyboard moves there.
                const [right, bottom] = [x + size.width / scale, y + size.height / scale];
                if (node.x < x || node.y < y || node.x + node.width > right || node.y + node.height > bottom) {
                  setMoved({ graph, scale, x: node.x + node.width / 2 - size.width / scale / 2, y: node.y + node.height / 2 - size.height / scale / 2 });
                }
              }}
              onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open())}
            >
              <rect width={node.width} height={node.height} rx="4">
                <title>{name}</title>
              </rect>
              <rect class="share" y={node.height - 3} width={Math.min(1, Math.abs(node.total) / widest) * node.width} height="3" />
              {lines.map((line, i) => (
                <>
                  <text x="8" y={17 + i * lineHeight} class={i === 1 ? "value" : "title"}>
                    {trim(line, 29)}
                  </text>{" "}
                </>
              ))}
              <text x="8" y={33 + below} class="value">
                {values}
              </text>
            </g>
          );
        })}
      </svg>
      </div>
    </section>
  );
}
