// The flame graph on one canvas: draws the visible part of a tree in preorder, and finds the box at a point.
//
// Draws only boxes of at least a pixel and a half. A run of narrower siblings becomes one hatched box, "N small frames", which can
// be opened. The canvas is as large as the visible window, however deep the tree is: the owner scrolls and draws again. Keeps no
// state but its last input; uses no DOM but the canvas.
import type { FlameTree } from "../core/tree";

export const lowRow = 20;
export const tallRow = 24;
const least = 1.5; // pixels

export interface Drawing {
  tree: FlameTree;
  left: number; // the visible window, in the unit of the weights
  span: number;
  zoom: number; // the zoomed node: those above it are muted
  alone: boolean; // hide the rows above it
  flame: boolean; // root at the bottom
  scrollTop: number;
  width: number; // CSS pixels
  height: number;
  ratio?: number; // of the canvas's pixels to these; else that of the screen
  label: (node: number) => string;
  sign: (node: number) => string; // before the label, never cut
  keepsEnd: (node: number) => boolean; // a label without room loses its beginning: what a function is called is at the end
  value: (node: number) => string; // at the end of a box that has room for it
  fill: (node: number) => string;
  matches: ((node: number) => boolean) | null; // all others fade
  plain: (node: number) => boolean; // drawn without a colour of its own: runs
  lit: ((node: number) => boolean) | null; // with an outline: what is pointed at elsewhere
  marked: number; // node with an outline (keyboard), −1: none
  chosen: number; // node with a strong outline (clicked), −1: none
  theme: { text: string; muted: string; mutedText: string; faded: string; fadedText: string; line: string; hatch: string; mark: string; lit: string; chosen: string; value: number; font: string };
}

export interface Hit {
  node: number; // the frame, or the parent of the small frames
  small: number[] | null; // first and last + 1 of the small frames' numbers; null for a frame
  left: number;
  top: number;
  width: number;
}

export class FlameCanvas {
  private boxes: Hit[] = [];
  private rows: number[][] = []; // boxes by row on screen
  private context: CanvasRenderingContext2D;
  private widths = new Map<string, number>();
  private first = 0; // depth of the topmost row
  private font = "";
  rowHeight = lowRow; // set before it measures and draws
  depth = 1; // rows that the zoomed tree takes, ancestors included

  constructor(private canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: true })!;
  }

  /** Returns the height of all rows at this zoom, for the owner's scroll area. Considers only boxes that are wide enough to see. */
  measure(tree: FlameTree, window: { left: number; span: number }, zoom: number, width: number, alone: boolean): number {
    this.first = alone ? tree.depth[zoom]! : 0;
    const scale = width / (window.span || 1);
    let deepest = this.first;
    for (let i = alone ? zoom : 0, end = alone ? tree.end[zoom]! : tree.size; i < end; ) {
      const x = (tree.x[i]! - window.left) * scale;
      const w = tree.weight[i]! * scale;
      if (x >= width - 1e-6 && i > 0) {
        i = tree.end[tree.parent[i]!]!; // all following siblings are further right
        continue;
      }
      if (x + w <= 1e-6) {
        i = tree.end[i]!;
        continue;
      }
      if (tree.depth[i]! > deepest) deepest = tree.depth[i]!;
      i = w < least ? tree.end[i]! : i + 1;
    }
    this.depth = deepest + 1 - this.first;
    return this.depth * this.rowHeight;
  }

  draw(d: Drawing): void {
    const { tree, zoom, width, height } = d;
    const ratio = d.ratio ?? (window.devicePixelRatio || 1);
    const canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = d.theme.font;
    if (this.font !== d.theme.font) this.widths.clear();
    this.font = d.theme.font;
    c.textBaseline = "middle";
    this.boxes = [];
    this.rows = [];
    if (tree.weight[0]! <= 0) return;
    const whole = this.depth * this.rowHeight;
    const top = (depth: number) => {
      const row = depth - this.first;
      return (d.flame ? whole - (row + 1) * this.rowHeight : row * this.rowHeight) - d.scrollTop;
    };

    const scale = width / (d.span || 1);
    let small: Hit | null = null;
    const flush = () => {
      if (small !== null && small.width >= 0.5) this.smallBox(d, small);
      small = null;
    };
    const last = d.alone ? tree.end[zoom]! : tree.size;
    for (let i = d.alone ? zoom : 0; i < last; ) {
      const w = tree.weight[i]! * scale;
      const x = (tree.x[i]! - d.left) * scale;
      if (x >= width - 1e-6 && i > 0) {
        flush();
        i = tree.end[tree.parent[i]!]!; // all following siblings are further right
        continue;
      }
      if (x + w <= 1e-6) {
        i = tree.end[i]!;
        continue;
      }
      const y = top(tree.depth[i]!);
      if (w < least && i !== zoom) {
        const up = tree.parent[i]!;
        if (small !== null && small.node === up && x - (small.left + small.width) < 1) {
          small.width = x + w - small.left;
          small.small![1] = i + 1;
        } else {
          flush();
          small = { node: up, small: [i, i + 1], left: x, top: y, width: w };
        }
        i = tree.end[i]!;
        continue;
      }
      if (small !== null) flush();
      // Boxes beyond the far edge of the window are neither visited nor drawn.
      const beyond = d.flame ? y < -this.rowHeight : y > height;
      if (beyond) {
        i = tree.end[i]!;
        continue;
      }
      const from = Math.max(0, x);
      this.box(d, i, from, Math.min(width, x + w) - from, y, i < zoom && tree.end[i]! > zoom);
      ++i;
    }
    flush();
  }

  private add(hit: Hit): void {
    const row = Math.floor(hit.top / this.rowHeight + 0.5) + 1;
    if (row >= 0) (this.rows[row] ??= []).push(this.boxes.length);
    this.boxes.push(hit);
  }

  private box(d: Drawing, node: number, x: number, w: number, y: number, ancestor: boolean): void {
    if (y < -this.rowHeight || y > d.height) return;
    const c = this.context;
    const { theme } = d;
    this.add({ node, small: null, left: x, top: y, width: w });
    const faded = d.matches !== null && !d.matches(node);
    const isPlain = ancestor || d.plain(node);
    c.fillStyle = isPlain ? theme.muted : faded ? theme.faded : d.fill(node);
    const gap = w > 4 ? 1 : w > 2.5 ? 0.5 : 0;
    c.fillRect(x, y, w - gap, this.rowHeight - 1);
    const isLit = d.lit !== null && d.lit(node);
    if (node === d.marked || isLit) {
      c.strokeStyle = isLit ? theme.lit : theme.mark;
      c.lineWidth = 2;
      c.strokeRect(x + 1, y + 1, Math.max(1, w - gap - 2), this.rowHeight - 3);
    }
    if (node === d.chosen) {
      c.strokeStyle = theme.chosen;
      c.lineWidth = 2.5;
      c.strokeRect(x + 1.25, y + 1.25, Math.max(1, w - gap - 2.5), this.rowHeight - 3.5);
    }
    if (w > 30) {
      c.fillStyle = isPlain ? theme.mutedText : faded ? theme.fadedText : theme.text;
      const text = this.fit(d.sign(node), d.label(node), w - 9, d.keepsEnd(node));
      if (text === "") return;
      c.fillText(text, x + 4, y + this.rowHeight / 2);
      // The value, where the name has all that it needs.
      const value = w > 110 && !text.includes("…") ? d.value(node) : "";
      if (value === "" || this.measureText(text) + this.measureText(value) + 28 > w) return;
      c.globalAlpha = theme.value;
      c.fillText(value, x + w - this.measureText(value) - 7, y + this.rowHeight / 2);
      c.globalAlpha = 1;
    }
  }

  private smallBox(d: Drawing, hit: Hit): void {
    if (hit.top < -this.rowHeight || hit.top > d.height) return;
    this.add(hit);
    const c = this.context;
    c.fillStyle = d.theme.hatch;
    const w = Math.max(0.75, hit.width - (hit.width > 3 ? 1 : 0));
    c.fillRect(hit.left, hit.top, w, this.rowHeight - 1);
    if (w > 6) {
      c.strokeStyle = d.theme.line;
      c.lineWidth = 1;
      c.beginPath();
      for (let x = hit.left; x < hit.left + w; x += 6) {
        c.moveTo(x, hit.top + this.rowHeight - 1);
        c.lineTo(Math.min(hit.left + w, x + 6), hit.top + this.rowHeight - 7 - 0);
      }
      c.stroke();
    }
  }

  private measureText(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.widths.size > 20000) this.widths.clear();
      this.widths.set(text, (width = this.context.measureText(text).width));
    }
    return width;
  }

  /** As much of a label as there is room for; of a name its end, from a part of it on if possible. */
  private fit(sign: string, label: string, width: number, keepsEnd: boolean): string {
    // 3 px is narrower than any letter: longer texts are cut before they are measured.
    const most = Math.ceil(width / 3);
    if (label.length <= most && this.measureText(sign + label) <= width) return sign + label;
    const fits = (text: string) => this.context.measureText(text).width <= width;
    if (!keepsEnd) {
      const long = label.slice(0, most);
      let low = 0;
      let high = long.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (fits(`${sign}${long.slice(0, middle)}…`)) low = middle;
        else high = middle - 1;
      }
      return low < 2 ? "" : `${sign}${long.slice(0, low)}…`;
    }
    const end = label.slice(-most);
    for (let at = end.indexOf("::"); at >= 0; at = end.indexOf("::", at + 2)) {
      const text = `${sign}…${end.slice(at + 2)}`;
      if (at + 2 < end.length && fits(text)) return text;
    }
    let low = 0;
    let high = end.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (fits(`${sign}…${end.slice(-middle)}`)) low = middle;
      else high = middle - 1;
    }
    return low < 2 ? "" : `${sign}…${end.slice(-low)}`;
  }

  /** Returns what is at a point of the canvas, in CSS pixels. */
  hit(x: number, y: number): Hit | null {
    const row = Math.floor(y / this.rowHeight) + 1;
    let best: Hit | null = null;
    let distance = 2; // tolerance for narrow boxes
    for (const r of [row - 1, row, row + 1]) {
      for (const index of this.rows[r] ?? []) {
        const box = this.boxes[index]!;
        if (y < box.top || y >= box.top + this.rowHeight) continue;
        const off = x < box.left ? box.left - x : x > box.left + box.width ? x - box.left - box.width : 0;
        if (off < distance) {
          best = box;
          distance = off;
        }
      }
    }
    return best;
  }

  boxOf(node: number): Hit | null {
    return this.boxes.find((box) => box.node === node && box.small === null) ?? null;
  }

  /** Draws the whole tree a few pixels high, as a map that shows the position of the window. */
  drawMap(tree: FlameTree, width: number, height: number, fill: (node: number) => string): void {
    const ratio = window.devicePixelRatio || 1;
    const canvas = this.canvas;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const scale = width / (tree.weight[0]! || 1);
    const row = Math.max(1, Math.min(4, height / (tree.maxDepth + 1)));
    for (let i = 0; i < tree.size; ) {
      const w = tree.weight[i]! * scale;
      const y = tree.depth[i]! * row;
      if (w < 0.7 || y > height) {
        i = tree.end[i]!;
        continue;
      }
      c.fillStyle = fill(i);
      c.fillRect(tree.x[i]! * scale, y, Math.max(0.7, w - 0.4), Math.max(0.8, row - 0.3));
      ++i;
    }
  }

  get drawn(): number {
    return this.boxes.length;
  }
}

/** Returns the siblings that "N small frames" represents. */
export function smallFrames(tree: FlameTree, hit: Hit): number[] {
  const nodes: number[] = [];
  if (hit.small === null) return nodes;
  for (let i = hit.small[0]!; i < hit.small[1]!; i = tree.end[i]!) nodes.push(i);
  return nodes.sort((a, b) => tree.weight[b]! - tree.weight[a]!);
}
