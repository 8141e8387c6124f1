// The flame graph: the canvas with its scrolling, zoom, map, mouse and keys, and the tree for screen readers.
// canvas/flame_canvas.ts decides what is drawn; core/ defines the meaning of boxes.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FlameCanvas, lowRow, smallFrames, tallRow, type Hit } from "../canvas/flame_canvas";
import type { Runs } from "../core/runs";
import type { FlameTree } from "../core/tree";
import { ActionMenu } from "./actions";
import { percentText, signedText, valueText, type App } from "./app_api";
import { colouring, flameThemes as themes } from "./colours";
import { samePlace, samePlaces } from "./same_place";
import { heaviestChild, HoverBox, mark, rootLabel, siblingBefore, Tooltip, Twin } from "./flame_parts";

interface Props {
  app: App;
  tree: FlameTree;
  zoom: number;
  chosen?: number; // the frame that was clicked, 0: none
  whole?: number; // what percentages are of; else all of the tree
  flame: boolean;
  label: string;
  runs?: ((apart: ReadonlySet<number>) => Runs | null) | undefined; // boxes that represent several frames
  height?: number;
  alone?: boolean; // hide what is above the zoomed frame
  onOpen: (node: number) => void; // a double click or Enter on a frame
  onPick?: (node: number) => void; // a click; if missing, a click opens
}

interface Window {
  left: number;
  span: number;
}

export function FlameGraph({ app, tree: full, zoom: fullZoom, chosen = 0, whole: wholeValue, flame, label, runs, height, alone = false, onOpen, onPick }: Props) {
  const { model, state, dark } = app;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<HTMLCanvasElement>(null);
  const drawer = useRef<FlameCanvas | null>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  // If a new moment of a live page has arrived since the last drawing, overlays move on to the same frames.
  const drawn = useRef<{ model: typeof model; full: FlameTree; tree: FlameTree; boxes: Runs | null; zoom: number } | null>(null);
  const before = drawn.current !== null && drawn.current.model !== model ? drawn.current : null;
  const goesOn = useRef(false);
  goesOn.current = before !== null;
  const [lastOpened, setOpened] = useState<{ tree: FlameTree; nodes: ReadonlySet<number> }>({ tree: full, nodes: new Set() });
  const opened = before !== null && lastOpened.tree === before.full ? { tree: full, nodes: samePlaces({ tree: before.full, model: before.model }, { tree: full, model }, lastOpened.nodes) } : lastOpened;
  const apart = new Set(opened.tree === full ? opened.nodes : []);
  for (let i = fullZoom; i > 0; i = full.parent[i]!) if (i === fullZoom) apart.add(i);
  // Runs are folded, and rows are low, only where there is no room for all frames.
  const fits = (rows: number, row: number) => size.height > 0 && rows * row <= size.height;
  const boxes = fits(full.maxDepth + 1, lowRow) ? null : runs?.(apart) ?? null;
  // Only drawn frames have boxes; `real` is the frame of a box, or the first frame of a run.
  const tree = boxes?.tree ?? full;
  const rowHeight = height === undefined && fits(tree.maxDepth + 1, tallRow) ? tallRow : lowRow;
  const zoom = boxes === null ? fullZoom : boxes.box[fullZoom]!;
  const all = wholeValue ?? tree.total[0]![0]!;
  const real = (box: number) => (boxes === null ? box : boxes.of[box]!);
  const inRun = (box: number) => (boxes === null ? 1 : boxes.count[box]!);
  const zoomed: Window = { left: tree.x[zoom]!, span: tree.weight[zoom]! };
  /** Returns the current box for a box of the last moment; −1: it is gone. */
  const boxOn = (box: number): number => {
    if (before === null || box === 0) return box;
    const node = samePlace({ tree: before.full, model: before.model }, { tree: full, model }, before.boxes === null ? box : before.boxes.of[box]!);
    return node === 0 ? -1 : boxes === null ? node : boxes.box[node]!;
  };
  /** Converts a value that belongs to a box of the last moment, or drops it. */
  const carry = <T extends { tree: FlameTree }>(value: T | null, on: (value: T) => T | null): T | null => (before !== null && value?.tree === before.tree ? on(value) : value);
  const [lastMoved, setMoved] = useState<{ tree: FlameTree; zoom: number; window: Window } | null>(null);
  const moved = carry(lastMoved, (value) => {
    const scale = zoomed.span / (before!.tree.weight[before!.zoom]! || 1);
    return value.zoom === before!.zoom ? { tree, zoom, window: { left: zoomed.left + (value.window.left - before!.tree.x[before!.zoom]!) * scale, span: value.window.span * scale } } : null;
  });
  const view = moved !== null && moved.tree === tree && moved.zoom === zoom ? moved.window : zoomed;
  // Each value belongs to the tree from which it was taken: a key may change the tree while the mouse rests.
  const [lastHovered, setHover] = useState<{ tree: FlameTree; hit: Hit; x: number; y: number } | null>(null);
  const hovered = carry(lastHovered, (value) => (value.hit.small !== null || boxOn(value.hit.node) < 0 ? null : { ...value, tree, hit: { ...value.hit, node: boxOn(value.hit.node) } }));
  const [lastListed, setSmall] = useState<{ tree: FlameTree; nodes: number[] } | null>(null);
  const listed = carry(lastListed, (value) => ({ tree, nodes: value.nodes.map(boxOn).filter((box) => box > 0) }));
  const [lastOver, setOver] = useState<{ tree: FlameTree; kind: "menu"; box: number; x: number; y: number } | null>(null);
  const over = carry(lastOver, (value) => (boxOn(value.box) < 0 ? null : { ...value, tree, box: boxOn(value.box) }));
  const [keptCursor, setCursor] = useState({ tree, node: zoom });
  const lastCursor = carry(keptCursor, (value) => ({ tree, node: boxOn(value.node) < 0 ? zoom : boxOn(value.node) }))!;
  const [lit, setLit] = useState(-1);
  const [focused, setFocused] = useState(false);
  const hover = hovered?.tree === tree ? hovered : null;
  const small = listed?.tree === tree ? listed.nodes : null;
  const floating = over?.tree === tree ? over : null;
  const cursor = lastCursor.tree === tree ? lastCursor.node : zoom;
  const matches = model.matches(state.search);
  const { fill } = colouring(model, state, full, dark);
  const compared = state.compare !== null && tree.total.length > 1;
  const drag = useRef<{ x: number; y: number; left: number; top: number; moved: boolean } | null>(null);

  useLayoutEffect(() => {
    if (before !== null) {
      setOpened(opened);
      setMoved(moved);
      setHover(hovered);
      setSmall(listed);
      setOver(over);
      setCursor(lastCursor);
      const pointed = app.hover.value;
      if (hovered !== null && pointed?.by === "graph" && pointed.node > 0) app.hover.set({ ...pointed, func: tree.func[hovered.hit.node]!, node: real(hovered.hit.node) });
    }
    drawn.current = { model, full, tree, boxes, zoom };
  });
  useEffect(() => {
    if (before !== null) return;
    setSmall(null);
    setHover(null);
    setOver(null);
    setCursor({ tree, node: zoom });
  }, [full, zoom]);
  useLayoutEffect(() => {
    const element = scroller.current!;
    const observe = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    observe();
    const observer = new ResizeObserver(observe);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => app.hover.listen((pointed) => setLit(pointed?.by === "table" ? pointed.func : -1)), [app.hover]);
  useEffect(() => () => void (goesOn.current || app.hover.set(null)), [full]);
  const isOver = useRef(false); // now, not when it was drawn last: keys may come faster
  isOver.current = floating !== null || small !== null;
  const close = () => {
    isOver.current = false;
    setSmall(null);
    setOver(null);
  };
  useEffect(() => app.closers.add(`flame ${label}`, () => isOver.current && (close(), true)), [app.closers, label]);

  const runText = (box: number) => `⋯ ${inRun(box)} frames: ${model.shortName(full.func[real(box)]!)} … ${model.shortName(full.func[real(box) + inRun(box) - 1]!)}`;
  const sign = (box: number) => (compared ? mark(tree, box) : tree.total[0]![box]! < 0 ? "− " : "");
  const labelOf = useCallback(
    (box: number) => (box === 0 ? rootLabel(app, tree) : inRun(box) > 1 ? runText(box) : model.shortName(tree.func[box]!)),
    [app.state, tree],
  );
  const anyOf = (box: number, test: (func: number) => boolean) => {
    for (let i = real(box), last = i + inRun(box); i < last; ++i) if (full.func[i]! >= 0 && test(full.func[i]!)) return true;
    return false;
  };

  drawer.current ??= canvas.current === null ? null : new FlameCanvas(canvas.current);
  if (drawer.current !== null) drawer.current.rowHeight = rowHeight;
  const whole = drawer.current === null || size.width === 0 ? rowHeight : drawer.current.measure(tree, view, zoom, size.width, alone);
  const printed = useRef(false);
  const draw = useCallback(() => {
    if (canvas.current === null || size.width === 0) return;
    const isPrinted = printed.current;
    const width = isPrinted ? paperWidth : size.width;
    drawer.current ??= new FlameCanvas(canvas.current);
    drawer.current.rowHeight = rowHeight;
    const total = drawer.current.measure(tree, view, zoom, width, alone);
    const shown = isPrinted ? total : Math.max(rowHeight, Math.min(size.height, total));
    // Paper is white. Browsers print what is drawn while they say that they print, before the page is rendered again.
    const isDark = dark && !isPrinted;
    const theme = themes[isDark ? "dark" : "light"];
    const fillOf = isDark === dark ? fill : colouring(model, state, full, isDark).fill;
    canvas.current.parentElement!.style.height = `${total}px`;
    canvas.current.dataset["pages"] = total > 1400 ? "many" : total > 690 ? "upright" : "one"; // on which paper it fits
    drawer.current.draw({
      tree,
      ...view,
      zoom: Math.min(zoom, tree.size - 1),
      flame,
      alone,
      scrollTop: Math.max(0, Math.min(scroller.current!.scrollTop, total - shown)),
      width,
      height: shown,
      ...(isPrinted ? { ratio: 2 } : {}),
      label: labelOf,
      sign: (box) => (box === 0 || inRun(box) > 1 ? "" : sign(box)),
      keepsEnd: (box) => box !== 0 && inRun(box) === 1,
      // In a difference how much it changed: of what is gone the head has nothing.
      value: (box) => (box === 0 ? "" : state.side === "both" && tree.total.length > 1 ? signedText(app, tree.total[0]![box]! - tree.total[1]![box]!) : `${valueText(app, tree.total[0]![box]!)}  ${percentText(tree.total[0]![box]!, all)}`),
      fill: (box) => fillOf(real(box)),
      plain: (box) => inRun(box) > 1,
      matches: matches === null ? null : (box) => anyOf(box, (func) => matches[func] === 1),
      lit: lit < 0 ? null : (box) => anyOf(box, (func) => func === lit),
      marked: focused ? cursor : -1,
      chosen: chosen > 0 ? (boxes === null ? chosen : boxes.box[chosen]!) : -1,
      theme: { ...theme, font: `${rowHeight === tallRow ? 13 : 12}px system-ui, 'Segoe UI', 'Noto Sans', sans-serif` },
    });
  }, [tree, zoom, chosen, rowHeight, view.left, view.span, flame, size, matches, dark, state, cursor, focused, lit]);
  useLayoutEffect(draw, [draw]);
  // All of it on paper, as wide as the paper.
  useEffect(() => {
    const print = (on: boolean) => () => {
      printed.current = on;
      draw();
    };
    const [before, after] = [print(true), print(false)];
    window.addEventListener("beforeprint", before);
    window.addEventListener("afterprint", after);
    return () => {
      window.removeEventListener("beforeprint", before);
      window.removeEventListener("afterprint", after);
    };
  }, [draw]);
  useLayoutEffect(() => {
    // A flame graph starts at the bottom.
    if (flame && before === null && scroller.current !== null) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [flame, tree, zoom, size.height]);

  // ---- The window: wheel, drag, map ----

  const isZoomed = !alone && tree.weight[0]! > 0 && view.span < tree.weight[0]! * (1 - 1e-9);
  const show = (left: number, span: number) => {
    const all = tree.weight[0]!;
    const wide = Math.min(all, Math.max(span, all * 1e-7));
    setMoved({ tree, zoom, window: { left: Math.max(0, Math.min(left, all - wide)), span: wide } });
  };
  const wheel = useRef<(event: WheelEvent) => void>(() => {});
  wheel.current = (event) => {
    if (size.width === 0) return;
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) {
      event.preventDefault();
      setHover(null);
      scroller.current!.scrollTop += (event.deltaY || event.deltaX) * unit;
      return;
    }
    if (alone) return;
    event.preventDefault();
    setHover(null);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return show(view.left + (event.deltaX * unit * view.span) / size.width, view.span);
    const at = (event.clientX - canvas.current!.getBoundingClientRect().left) / size.width;
    const span = view.span * Math.exp(event.deltaY * unit * 0.0022);
    show(view.left + at * (view.span - Math.min(span, tree.weight[0]!)), span);
  };
  useEffect(() => {
    const listen = (event: WheelEvent) => wheel.current(event);
    const element = scroller.current!;
    element.addEventListener("wheel", listen, { passive: false });
    return () => element.removeEventListener("wheel", listen);
  }, []);
  useLayoutEffect(() => {
    if (!isZoomed || map.current === null || size.width === 0) return;
    new FlameCanvas(map.current).drawMap(tree, size.width, mapHeight, (box) => (inRun(box) > 1 ? themes[dark ? "dark" : "light"].hatch : fill(real(box))));
  }, [isZoomed, tree, size.width, dark, model.colour(state)]);
  const fromMap = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    show(((event.clientX - box.left) / box.width) * tree.weight[0]! - view.span / 2, view.span);
  };

  // ---- Pointer and keys ----

  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return drawer.current?.hit(event.clientX - box.left, event.clientY - box.top) ?? null;
  };
  const toOpened = (box: number) => setOpened({ tree: full, nodes: new Set([...(opened.tree === full ? opened.nodes : []), real(box)]) });
  const open = (hit: Hit | null) => {
    if (hit === null) return;
    if (hit.small !== null) setSmall({ tree, nodes: smallFrames(tree, hit) });
    else if (inRun(hit.node) > 1) toOpened(hit.node);
    else onOpen(real(hit.node));
  };
  const pick = (event: MouseEvent) => {
    const hit = at(event);
    if (hit === null) return close();
    if (onPick === undefined || hit.small !== null || inRun(hit.node) > 1) return open(hit);
    setHover(null);
    setOver(null);
    setCursor({ tree, node: hit.node });
    onPick(real(hit.node));
  };
  const pan = (event: PointerEvent) => {
    const from = drag.current;
    if (from === null) return false;
    if (!from.moved && Math.hypot(event.clientX - from.x, event.clientY - from.y) < 4) return true;
    from.moved = true;
    setHover(null);
    scroller.current!.scrollTop = from.top - (event.clientY - from.y);
    if (!alone) show(from.left - ((event.clientX - from.x) / size.width) * view.span, view.span);
    return true;
  };
  const point = (hit: Hit | null, event: MouseEvent) => {
    setHover(hit === null ? null : { tree, hit, x: event.clientX, y: event.clientY });
    const box = hit !== null && hit.small === null && hit.node > 0 ? hit.node : 0;
    app.hover.set(box === 0 ? null : { func: tree.func[box]!, node: onPick === undefined ? 0 : real(box), by: "graph" });
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
    else if (event.key === "Enter") return stop(event, () => (inRun(cursor) > 1 ? toOpened(cursor) : onOpen(real(cursor))));
    else if (event.key === " ") return stop(event, () => (app.hover.set(null), (onPick ?? onOpen)(real(cursor))));
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const box = drawer.current?.boxOf(cursor);
      const frame = canvas.current!.getBoundingClientRect();
      return stop(event, () => cursor > 0 && setOver({ tree, kind: "menu", box: cursor, x: frame.left + (box?.left ?? 0) + 8, y: frame.top + (box?.top ?? 0) + rowHeight }));
    } else return;
    stop(event, () => {
      setCursor({ tree, node: next });
      app.cursor.func = tree.func[next]!;
      if (onPick !== undefined) app.hover.set(next === 0 ? null : { func: tree.func[next]!, node: real(next), by: "key" });
      const box = { left: tree.x[next]!, right: tree.x[next]! + tree.weight[next]! };
      if (!alone && (box.right <= view.left || box.left >= view.left + view.span)) show(box.left - view.span / 4, view.span);
      const top = flame ? whole - (tree.depth[next]! + 1) * rowHeight : tree.depth[next]! * rowHeight;
      const element = scroller.current!;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
    });
  };

  const id = flame ? "flame" : "icicle";
  /** Where the row of a box is in the window. */
  const rowOf = (hit: Hit): [top: number, bottom: number] => {
    const top = canvas.current!.getBoundingClientRect().top + hit.top;
    return [top, top + rowHeight];
  };
  const zoomOf = (box: number) => () => onOpen(real(box));
  return (
    <div class="flame-frame">
      {isZoomed && (
        <div class="map" data-testid="map" aria-hidden="true" style={{ height: `${mapHeight}px` }} onPointerDown={(event) => (event.currentTarget.setPointerCapture(event.pointerId), fromMap(event))} onPointerMove={(event) => event.buttons === 1 && fromMap(event)}>
          <canvas ref={map} />
          <i style={{ left: `${(100 * view.left) / tree.weight[0]!}%`, width: `max(3px, ${(100 * view.span) / tree.weight[0]!}%)` }} />
        </div>
      )}
      <div
        class="flame-scroll"
        ref={scroller}
        style={height === undefined ? undefined : { height: `${height}px`, flex: "none" }}
        tabIndex={0}
        role="tree"
        aria-label={label}
        aria-activedescendant={`${id}-${cursor}`}
        onKeyDown={move}
        onFocus={() => (setFocused(true), (app.cursor.func = tree.func[cursor]!))}
        onBlur={() => {
          setFocused(false);
          app.cursor.func = -1;
          if (app.hover.value?.by === "key") app.hover.set(null);
        }}
        onScroll={draw}
        onPointerDown={(event) => {
          if (event.button === 0 && event.pointerType === "mouse") drag.current = { x: event.clientX, y: event.clientY, left: view.left, top: scroller.current!.scrollTop, moved: false };
        }}
        onPointerMove={(event) => {
          if (event.buttons === 1 && pan(event)) return;
          if (event.pointerType !== "touch") point(at(event), event);
        }}
        onPointerLeave={(event) => {
          if (event.buttons === 1 && drag.current?.moved) return;
          setHover(null);
          app.hover.set(null);
        }}
        onClick={(event) => {
          const wasDragged = drag.current?.moved === true;
          drag.current = null;
          if (!wasDragged) pick(event);
        }}
        onDblClick={(event) => onPick !== undefined && open(at(event))}
        onContextMenu={(event) => {
          const hit = at(event);
          if (hit === null || hit.small !== null || hit.node === 0) return;
          event.preventDefault();
          setHover(null);
          setOver({ tree, kind: "menu", box: hit.node, x: event.clientX, y: event.clientY });
        }}
      >
        <div class="flame-space" style={{ height: `${whole}px` }} role="presentation">
          <canvas ref={canvas} aria-hidden="true" data-testid="flame-canvas" data-row={rowHeight} />
        </div>
        <Twin app={app} tree={tree} cursor={cursor} id={id} whole={all} nameOfBox={(box) => (inRun(box) > 1 ? runText(box) : model.shortName(tree.func[box]!))} />
      </div>
      {hover !== null && <HoverBox hit={hover.hit} canvas={canvas.current} row={rowHeight} />}
      {hover !== null && floating === null && (
        <Tooltip app={app} tree={tree} whole={all} hit={hover.hit} x={hover.x} row={rowOf(hover.hit)} below={flame} run={Array.from({ length: inRun(hover.hit.node) }, (_, i) => full.func[real(hover.hit.node) + i]!)} />
      )}
      {floating?.kind === "menu" && <ActionMenu app={app} func={tree.func[floating.box]!} zoom={zoomOf(floating.box)} x={floating.x} y={floating.y} close={() => setOver(null)} />}
      {small !== null && (
        <div class="popover small-frames" role="dialog" aria-label={`${small.length} small frames`}>
          <header>
            <b>{small.length} small frames</b>
            <button class="icon" aria-label="Close" onClick={() => setSmall(null)}>
              ×
            </button>
          </header>
          <ul>
            {small.slice(0, 200).map((box) => (
              <li key={box}>
                <button onClick={() => onOpen(real(box))}>
                  <span class="num">{valueText(app, tree.total[0]![box]!)}</span> {model.shortName(tree.func[box]!)}
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

const mapHeight = 30;
const paperWidth = 860; // CSS pixels: between upright A4 (700) and lying A4 (1040), to which it is scaled

function stop(event: KeyboardEvent, act: () => void): void {
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** Shown if there is nothing to draw: the reason, and what to do. */
export function Nothing({ app }: { app: App }) {
  const { state } = app;
  const filtered = state.chips.length > 0 || state.labels.length > 0 || state.weight !== null || state.from >= 0 || state.to >= 0;
  return (
    <div class="empty" role="status">
      <p>
        <b>Nothing to show.</b>
      </p>
      {filtered ? (
        <>
          <p>No stack passes all filters.</p>
          <button onClick={() => app.set({ chips: [], labels: [], weight: null, from: -1, to: -1, zoom: [], pinned: [] })}>Remove all filters</button>
        </>
      ) : (
        <p>
          This metric has no samples here. Choose another one above, or sample more often: <code>holdfast run --heap-interval 64KiB</code>.
        </p>
      )}
    </div>
  );
}
