// A picture of waiters and holders: waiters on the left, locks in the middle, holders on the right; bands as thick as the time that
// was waited. Reads as a sentence: "victim waits for queue_mutex, which culprit holds". A lock has the delay that the table gives it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatValue } from "../../core/units";
import type { App } from "../app_api";
import { usePrinted } from "../media";
import { handedOver, lockFlows, notCaptured, type Flow, type singleLocks } from "./lock_data";

interface Box {
  key: string;
  text: string;
  func: number; // −1: none
  size: number;
  y: number;
  in: number; // where the next band begins, on each side
  out: number;
}

const most = 12; // locks, and boxes of a column
const gap = 8;
const leastWidth = 320;
const paperWidth = 720;
const leastBand = 1.5;

/** Sizes for a frame: on a phone the value is below the name, so that all three columns fit. */
function sizesFor(room: number): { width: number; height: number; between: number; stacked: boolean } {
  const width = Math.max(leastWidth, room);
  return width < 700 ? { width, height: 42, between: 14, stacked: true } : { width, height: 28, between: width < 980 ? 50 : 110, stacked: false };
}
const pixels = { character: 7.4, digit: 7.2 }; // of the name, and of the value beside it

export function LockDrawing({ app, data, onOpen }: { app: App; data: ReturnType<typeof singleLocks>; onOpen: (func: number, kind: "block" | "mutex") => void }) {
  const frame = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    const observe = () => setRoom(frame.current?.clientWidth ?? 0);
    observe();
    const observer = new ResizeObserver(observe);
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  const { width, height, between, stacked } = sizesFor(usePrinted() ? paperWidth : room);
  const flows = lockFlows(data, most);
  const nameOf = (func: number) => (func === handedOver ? (stacked ? "nobody: late" : "nobody: handed over late") : func === notCaptured ? "not sampled" : app.model.shortName(func));
  const box = (key: string, text: string, func: number): Box => ({ key, text, func, size: 0, y: 0, in: 0, out: 0 });
  const column = (side: Flow[]) => {
    const boxes = new Map<string, Box>();
    for (const { func, delay } of side) {
      const key = String(func);
      const known = boxes.get(key) ?? box(key, nameOf(func), func);
      known.size += delay;
      boxes.set(key, known);
    }
    return boxes;
  };
  const waiters = column(flows.waits);
  const holders = column(flows.holds);
  const locks = new Map([...flows.locks].map(([name, size]) => [name, { ...box(name, name, -1), size }]));
  const columns = [waiters, locks, holders];
  const largest = Math.max(...columns.flatMap((boxes) => [...boxes.values()].map(({ size }) => size)), 1);
  const thick = (delay: number) => Math.max(leastBand, (delay / largest) * (height - 4));
  const wide = (width - 2 * between - 2) / 3;
  const x = (i: number) => 1 + i * (wide + between);
  let tall = 0;
  for (const boxes of columns) {
    [...boxes.values()].sort((a, b) => b.size - a.size).forEach((one, i) => {
      one.y = i * (height + gap);
      // In the middle of the box, as its bands together are at most as thick as it is high.
      one.in = one.out = one.y + (height - Math.min(height - 4, (one.size / largest) * (height - 4))) / 2;
    });
    tall = Math.max(tall, boxes.size * (height + gap) - gap);
  }
  const band = (from: Box, to: Box, delay: number, i: number) => {
    const size = thick(delay);
    const [y1, y2] = [from.out, to.in];
    from.out += (delay / largest) * (height - 4);
    to.in += (delay / largest) * (height - 4);
    const [x1, x2] = [x(i) + wide, x(i + 1)];
    const middle = (x1 + x2) / 2;
    return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}V${y2 + size}C${middle} ${y2 + size} ${middle} ${y1 + size} ${x1} ${y1 + size}Z`;
  };
  const time = (ns: number) => formatValue(ns, "nanoseconds");
  const bands = [
    ...flows.waits.map(({ lock, func, delay }) => ({ d: band(waiters.get(String(func))!, locks.get(lock)!, delay, 0), late: false, title: `${nameOf(func)} waited ${time(delay)} for ${lock}` })),
    ...flows.holds.map(({ lock, func, delay }) => ({
      d: band(locks.get(lock)!, holders.get(String(func))!, delay, 1),
      late: func === handedOver,
      title: func === handedOver ? `${lock}: ${time(delay)} from an unlock until the next thread ran` : `${nameOf(func)} held ${lock} while others waited ${time(delay)}`,
    })),
  ];
  // Cuts a name at its beginning, because its end tells most.
  const trim = (text: string, value: string) => {
    const places = Math.floor((wide - (stacked ? 14 : 30 + pixels.digit * value.length)) / pixels.character);
    return text.length > places ? `…${text.slice(text.length - Math.max(1, places - 1))}` : text;
  };
  return (
    <div class="whom-frame" ref={frame}>
      {flows.locks.size > 0 && (
        <svg class="whom" width={width} height={tall + 24} viewBox={`0 -22 ${width} ${tall + 24}`} role="group" aria-label="Who waits for which lock, and who holds it">
          {["waits", "for the lock", "that is held by"].map((text, i) => (
            <text key={text} class="caption" x={x(i)} y={-8}>
              {text}
            </text>
          ))}
          {bands.map(({ d, title, late }, i) => (
            <path key={i} class={late ? "band late" : "band"} d={d}>
              <title>{title}</title>
            </path>
          ))}
          {columns.map((boxes, i) =>
            [...boxes.values()].map((one) => {
              const kind = i === 0 ? "block" : "mutex";
              const open = () => one.func >= 0 && onOpen(one.func, kind);
              return (
                <g
                  key={`${i} ${one.key}`}
                  class={`who ${["waiter", "lock", one.func === handedOver ? "nobody" : "holder"][i]}`}
                  transform={`translate(${x(i)} ${one.y})`}
                  {...(one.func >= 0 ? { role: "button", tabindex: 0, onClick: open, onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && open() } : {})}
                >
                  <rect width={wide} height={height} rx="4">
                    <title>{one.func >= 0 ? app.model.report.names[one.func] : one.text}</title>
                  </rect>{" "}
                  <text x={stacked ? 6 : 9} y={stacked ? 17 : height / 2 + 4}>
                    {trim(one.text, time(one.size))}
                  </text>{" "}
                  <text class="value" x={wide - (stacked ? 6 : 9)} y={stacked ? 34 : height / 2 + 4} text-anchor="end">
                    {time(one.size)}
                  </text>
                </g>
              );
            }),
          )}
        </svg>
      )}
    </div>
  );
}
