// A plot over time: lines over the moments, ticks, the peak, the value under the pointer, and a range that can be brushed. Draws
// only from its inputs, so that nothing is left over from before.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { spanOf } from "../core/select";
import { formatValue } from "../core/units";

export interface Line {
  name: string;
  values: number[]; // NaN: unknown at that time; never in the first line
  class: string;
}

interface Props {
  moments: number[];
  lines: Line[]; // the first one is filled, and its peak marked
  parts?: Line[]; // what the first line is made of, stacked, the largest at the bottom
  tall?: boolean; // a strip with room for axes
  unit: string;
  range: { from: number; to: number }; // milliseconds; −1: open
  onRange: (from: number, to: number) => void;
  open: boolean; // large, with every tick; else a strip
  spike: { ms: number; value: number } | null; // the highest value between two moments, if known
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => s * 1000);

/** Returns ticks at whole seconds, minutes, hours … of the reader's clock, so that labels are short and exact. */
export function timeTicks(first: number, last: number, most: number): number[] {
  const step = steps.find((s) => (last - first) / s <= most) ?? Math.ceil((last - first) / most / 86400e3) * 86400e3;
  const shift = new Date(first).getTimezoneOffset() * 60_000;
  const ticks: number[] = [];
  for (let t = Math.ceil((first - shift) / step) * step + shift; t <= last; t += step) ticks.push(t);
  return ticks;
}

export function valueTicks(most: number, unit: string): number[] {
  if (most <= 0) return [0];
  const base = unit === "bytes" ? 2 ** Math.floor(Math.log2(most)) : 10 ** Math.floor(Math.log10(most));
  const step = [base / 8, base / 5, base / 4, base / 2, base].find((s) => most / s <= 3.999 && (unit !== "bytes" || s !== base / 5)) ?? base;
  const ticks: number[] = [];
  for (let value = 0; value <= most; value += step) ticks.push(value);
  return ticks;
}

export function clockText(ms: number, withSeconds: boolean): string {
  return new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", ...(withSeconds ? { second: "2-digit" } : {}) });
}

export function Plot({ moments, lines, parts = [], tall = false, unit, range, onRange, open, spike }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [pointer, setPointer] = useState<number | null>(null); // pixels
  const [pointerY, setPointerY] = useState(0);
  const [drag, setDrag] = useState<[from: number, to: number] | null>(null);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(frame.current?.clientWidth ?? 0));
    observer.observe(frame.current!);
    setWidth(frame.current!.clientWidth);
    return () => observer.disconnect();
  }, []);

  const hasAxes = open || tall;
  const [left, bottom, top] = open ? [72, 18, 16] : tall ? [60, 14, 6] : [0, 0, 2];
  const height = open ? 160 : tall ? 76 : 22;
  const inner = Math.max(1, width - left - (hasAxes ? 10 : 0));
  const [first, last] = [moments[0]!, moments[moments.length - 1]!];
  const known = lines.flatMap(({ values }) => values).filter((value) => !Number.isNaN(value));
  const most = Math.max(...known, spike?.value ?? 0, 0);
  const least = Math.min(...known, 0);
  const x = (ms: number) => left + ((ms - first) / Math.max(1e-9, last - first)) * inner;
  const y = (value: number) => top + (1 - (value - least) / Math.max(1e-9, most - least)) * (height - top - bottom - 2);
  const msAt = (px: number) => first + (Math.max(0, Math.min(inner, px)) / inner) * (last - first);
  const step = (values: number[], i: number) => (i === 0 || Number.isNaN(values[i - 1]!) ? "M" : "L"); // a gap if unknown
  const path = (values: number[]) => values.map((value, i) => (Number.isNaN(value) ? "" : `${step(values, i)}${x(moments[i]!).toFixed(1)} ${y(value).toFixed(1)}`)).join("");

  const values = lines[0]!.values;
  // Stacked: the upper edge of each part at each moment.
  const below = moments.map(() => 0);
  const edges = parts.map((part) => moments.map((_, i) => (below[i]! += part.values[i]!)));
  const bandPath = (k: number) => {
    const there = edges[k]!.map((value, i) => `${x(moments[i]!).toFixed(1)} ${y(value).toFixed(1)}`);
    const back = moments.map((ms, i) => `${x(ms).toFixed(1)} ${y(k === 0 ? 0 : edges[k - 1]![i]!).toFixed(1)}`).reverse();
    return `M${[...there, ...back].join("L")}Z`;
  };
  const highest = values.indexOf(Math.max(...values));
  const isSpike = spike !== null && spike.value > values[highest]!;
  const peak = isSpike ? spike : { ms: moments[highest]!, value: values[highest]! };
  const peakAt = Math.max(first, Math.min(last, peak.ms));
  const peakX = x(peakAt);
  // The line goes up to a peak between two moments, and comes back.
  const total = isSpike
    ? moments.reduce((d, ms, i) => `${d}${i > 0 && moments[i - 1]! < peakAt && peakAt <= ms ? `L${peakX.toFixed(1)} ${y(peak.value).toFixed(1)}` : ""}${i === 0 ? "M" : "L"}${x(ms).toFixed(1)} ${y(values[i]!).toFixed(1)}`, "")
    : path(values);
  const [from, to] = spanOf(moments, range);
  const brushed = range.from >= 0 || range.to >= 0;
  const [shownFrom, shownTo] = drag ?? [x(range.from < 0 ? first : Math.max(first, Math.min(range.from, last))) - left, x(range.to < 0 ? last : Math.max(first, Math.min(range.to, last))) - left];
  let near = -1;
  if (pointer !== null) moments.forEach((ms, i) => (near < 0 || Math.abs(x(ms) - left - pointer) < Math.abs(x(moments[near]!) - left - pointer)) && (near = i));

  // The part under the pointer.
  const under = near < 0 ? -1 : edges.findIndex((edge, k) => pointerY <= y(k === 0 ? least : edges[k - 1]![near]!) && pointerY >= y(edge[near]!));

  const at = (event: PointerEvent) => event.clientX - (event.currentTarget as HTMLElement).getBoundingClientRect().left;
  const end = () => {
    if (drag === null) return;
    const [a, b] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    if (b - a < 4) return onRange(-1, -1); // a click
    onRange(a <= 0 ? -1 : Math.round(msAt(a)), b >= inner ? -1 : Math.round(msAt(b)));
  };
  return (
    <div class={`plot ${open ? "open" : ""}`} ref={frame} style={{ height: `${height}px` }}>
      {width > 0 && (
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          {hasAxes &&
            valueTicks(most, unit).map((value) => (
              <g key={value} class="value-tick">
                <path class="grid" d={`M${left} ${y(value)}H${left + inner}`} />
                <text x={left - 8} y={y(value) + 4} text-anchor="end">
                  {formatValue(value, unit)}
                </text>
              </g>
            ))}
          {hasAxes &&
            timeTicks(first, last, inner / 110).map((ms) => (
              <g key={ms} class="time-tick">
                <path class="tick" d={`M${x(ms)} ${height - bottom}v4`} />
                <text x={Math.max(left + 14, Math.min(width - 30, x(ms)))} y={height - 3} text-anchor="middle">
                  {clockText(ms, last - first < 3600e3)}
                </text>
              </g>
            ))}
          {parts.length === 0 && <path class="area" d={`${total}L${x(last)} ${y(0)}L${x(first)} ${y(0)}Z`} />}
          {parts.map((part, k) => (
            <path key={part.name} class={`part ${part.class} ${k === under ? "under" : ""}`} data-part={part.name} d={bandPath(k)} />
          ))}
          {lines.map((line, i) => (
            <path key={line.name} class={`line ${line.class}`} d={i === 0 ? total : path(line.values)} />
          ))}
          {open && moments.length <= 80 && moments.map((ms, i) => <circle key={ms} class="point" cx={x(ms)} cy={y(values[i]!)} r="2" />)}
          {most > 0 && (
            <g class="peak">
              <circle cx={peakX} cy={y(peak.value)} r={open ? 3.5 : 2.5} />
              {open && (
                <text x={Math.max(left + 30, Math.min(left + inner - 40, peakX))} y={y(peak.value) - 6} text-anchor="middle">
                  peak {formatValue(peak.value, unit)}
                </text>
              )}
            </g>
          )}
          {near >= 0 && <path class="cursor" d={`M${x(moments[near]!)} 0V${height - bottom}`} />}
        </svg>
      )}
      <div
        class="plot-pointer"
        data-testid="timeline"
        style={{ left: `${left}px`, width: `${inner}px`, height: `${height - bottom}px` }}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([at(event), at(event)]);
        }}
        onPointerMove={(event) => {
          setPointer(at(event));
          setPointerY(event.clientY - event.currentTarget.getBoundingClientRect().top);
          if (drag !== null) setDrag([drag[0], Math.max(0, Math.min(inner, at(event)))]);
        }}
        onPointerUp={end}
        onPointerCancel={() => setDrag(null)}
        onPointerLeave={() => setPointer(null)}
      >
        {(brushed || drag !== null) && (
          <i
            class="brush"
            data-testid="brush"
            data-range={`${from}:${to}`}
            style={{ left: `${Math.min(shownFrom, shownTo)}px`, width: `${Math.max(2, Math.abs(shownTo - shownFrom))}px` }}
          />
        )}
      </div>
      {near >= 0 && (
        <div class="plot-value" role="tooltip" style={x(moments[near]!) < width / 2 ? { left: `${x(moments[near]!) + 10}px` } : { right: `${width - x(moments[near]!) + 10}px` }}>
          {under >= 0 && (
            <span>
              <i class={`swatch ${parts[under]!.class}`} /> <b>{formatValue(parts[under]!.values[near]!, unit)}</b> {parts[under]!.name} of
            </span>
          )}
          <b>{formatValue(values[near]!, unit)}</b> {clockText(moments[near]!, true)}
          {lines.slice(1).filter((line) => !Number.isNaN(line.values[near]!)).map((line) => (
            <span key={line.name} class={line.class}>
              <b>{formatValue(line.values[near]!, unit)}</b> {line.name}
            </span>
          ))}
        </div>
      )}
    </div>
  );
}
