// Draws who waits for whom: waiters on the left, locks in the middle, holders on the right. The width of a band is the time waited.
// It reads as a sentence: "victim waits for queue_mutex, which culprit holds".
import { formatValue } from "../../core/units";
import type { App } from "../app_api";
import type { WhomRow } from "./lock_data";

interface Box {
  key: string;
  text: string;
  func: number; // −1: none
  size: number;
  y: number;
  height: number;
  in: number; // where the next band begins, on each side
  out: number;
}

const gap = 8;
const least = 22;
const tall = 260;
const wide = { box: 270, between: 90 };
const pixels = { character: 7.4, digit: 7.2 }; // for the name, and for the value beside it

/** Returns the boxes of one column, the largest first, at least as high as a line of text. */
function column(rows: WhomRow[], keyOf: (row: WhomRow) => [string, number]): Map<string, Box> {
  const boxes = new Map<string, Box>();
  for (const row of rows) {
    const [text, func] = keyOf(row);
    const box = boxes.get(text) ?? { key: text, text, func, size: 0, y: 0, height: 0, in: 0, out: 0 };
    box.size += row.delay;
    boxes.set(text, box);
  }
  return boxes;
}

function place(boxes: Map<string, Box>, whole: number): number {
  let y = 0;
  for (const box of [...boxes.values()].sort((a, b) => b.size - a.size)) {
    box.y = y;
    box.height = Math.max(least, (box.size / whole) * tall);
    y += box.height + gap;
  }
  return y - gap;
}

export function LockDrawing({ app, rows: all, onOpen }: { app: App; rows: WhomRow[]; onOpen: (func: number, kind: "block" | "mutex") => void }) {
  // A thread that wakes another up holds nothing: draw events only if there is nothing else.
  const some = all.filter((row) => row.delay > 0);
  const held = some.filter((row) => row.rank === 0);
  const rows = (held.length > 0 ? held : some).slice(0, 12);
  const whole = rows.reduce((sum, row) => sum + row.delay, 0);
  if (whole <= 0) return null;
  const nameOf = (func: number) => (func < 0 ? "not captured" : app.model.shortName(func));
  const waiters = column(rows, (row) => [nameOf(row.waiter), row.waiter]);
  const locks = column(rows, (row) => [row.lock, -1]);
  const holders = column(rows, (row) => [nameOf(row.holder), row.holder]);
  const columns = [waiters, locks, holders];
  const height = Math.max(...columns.map((boxes) => place(boxes, whole)));
  for (const boxes of columns) {
    const used = Math.max(...[...boxes.values()].map(({ y, height: h }) => y + h));
    for (const box of boxes.values()) box.y += (height - used) / 2;
  }
  const x = (i: number) => i * (wide.box + wide.between);
  const width = x(2) + wide.box;
  const band = (from: Box, to: Box, delay: number, i: number) => {
    const [a, b] = [(delay / from.size) * from.height, (delay / to.size) * to.height];
    const [y1, y2] = [from.y + from.out, to.y + to.in];
    from.out += a;
    to.in += b;
    const [x1, x2] = [x(i) + wide.box, x(i + 1)];
    const middle = (x1 + x2) / 2;
    return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}V${y2 + b}C${middle} ${y2 + b} ${middle} ${y1 + a} ${x1} ${y1 + a}Z`;
  };
  const bands = rows.flatMap((row) => {
    const [waiter, lock, holder] = [waiters.get(nameOf(row.waiter))!, locks.get(row.lock)!, holders.get(nameOf(row.holder))!];
    const title = `${waiter.text} waited ${formatValue(row.delay, "nanoseconds")} for ${lock.text}, which ${holder.text} held`;
    return [
      { d: band(waiter, lock, row.delay, 0), title },
      { d: band(lock, holder, row.delay, 1), title },
    ];
  });
  // Cut the text to the room beside the value, shortened in the middle.
  const trim = (text: string, value: string) => {
    const room = Math.floor((wide.box - 30 - pixels.digit * value.length) / pixels.character);
    return text.length > room ? `${text.slice(0, Math.ceil((room - 1) / 2))}…${text.slice(text.length - Math.floor((room - 1) / 2))}` : text;
  };
  return (
    <svg class="whom" width={width} height={height + 26} viewBox={`0 -22 ${width} ${height + 26}`} role="group" aria-label="Who waits for which lock, and who holds it">
      {["waits", "for the lock", "that is held by"].map((text, i) => (
        <text key={text} class="caption" x={x(i)} y={-8}>
          {text}
        </text>
      ))}
      {bands.map(({ d, title }, i) => (
        <path key={i} class="band" d={d}>
          <title>{title}</title>
        </path>
      ))}
      {columns.map((boxes, i) =>
        [...boxes.values()].map((box) => {
          const kind = i === 0 ? "block" : "mutex";
          const open = () => box.func >= 0 && onOpen(box.func, kind);
          return (
            <g
              key={`${i} ${box.key}`}
              class={`who ${["waiter", "lock", "holder"][i]}`}
              transform={`translate(${x(i)} ${box.y})`}
              {...(box.func >= 0 ? { role: "button", tabindex: 0, onClick: open, onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && open() } : {})}
            >
              <rect width={wide.box} height={box.height} rx="4">
                <title>{box.func >= 0 ? app.model.report.names[box.func] : box.text}</title>
              </rect>{" "}
              <text x="9" y={box.height / 2 + 4}>
                {trim(box.text, formatValue(box.size, "nanoseconds"))}
              </text>{" "}
              <text class="value" x={wide.box - 9} y={box.height / 2 + 4} text-anchor="end">
                {formatValue(box.size, "nanoseconds")}
              </text>
            </g>
          );
        }),
      )}
    </svg>
  );
}
