// Numbers as `holdfast top` prints them (report/base/value_units.cc): "86.60MiB", "23.45ms", "12.34%".

const sizes: [string, number][] = [
  ["B", 1],
  ["KiB", 2 ** 10],
  ["MiB", 2 ** 20],
  ["GiB", 2 ** 30],
  ["TiB", 2 ** 40],
  ["PiB", 2 ** 50],
];
const times: [string, number][] = [
  ["ns", 1],
  ["us", 1e3],
  ["ms", 1e6],
  ["s", 1e9],
  ["h", 3600e9],
];

/** value with so many digits behind the point; exact halves go to the even digit, as C++ rounds. */
function fixed(value: number, digits: number): string {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  return scaled - below === 0.5 ? ((below % 2 === 0 ? below : below + 1) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}

function short(value: number): string {
  const text = fixed(value, 2);
  return text.endsWith(".00") ? text.slice(0, -3).replace(/^-0$/, "0") : text;
}

export function formatValue(value: number, unit: string): string {
  const units = unit === "bytes" ? sizes : unit === "nanoseconds" ? times : null;
  value = Math.round(value) || 0;
  if (units === null) return unit === "count" || unit === "" ? grouped(value) : `${value}${unit}`;
  if (value === 0) return "0";
  let best = units[0]!;
  for (const candidate of units) if (Math.abs(value) >= candidate[1]) best = candidate;
  return short(value / best[1]) + best[0];
}

/** A time that is known to two digits, as a percentile is: "1.1ms", "20ms", "210ms"; "" for none. */
export function formatRough(ns: number): string {
  if (ns < 0) return "";
  let best = times[0]!;
  for (const candidate of times) if (ns >= candidate[1] * 0.995) best = candidate;
  const value = ns / best[1];
  const step = value < 9.95 ? 0.1 : value < 99.5 ? 1 : value < 995 ? 10 : 100;
  return String(Number((Math.round(value / step) * step).toFixed(1))) + best[0];
}

/** 1234567 → "1,234,567". */
export function grouped(value: number): string {
  return String(Math.round(value) || 0).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function formatSigned(value: number, unit: string): string {
  const text = formatValue(Math.abs(value), unit);
  return text === "0" ? "0" : (value < 0 ? "−" : "+") + text;
}

export function formatPercent(value: number, total: number): string {
  if (total === 0) return "0%";
  const percent = Math.abs(value / total) * 100;
  if (percent >= 99.95 && percent <= 100.05) return "100%";
  if (percent >= 1 || percent === 0) return short(percent) + "%";
  if (percent < 0.01) return "<0.01%";
  return String(Number(fixed(percent, percent < 0.1 ? 3 : 2))) + "%";
}

export function formatDuration(ms: number): string {
  const s = Math.abs(ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 100) return `${Number(s.toPrecision(3))} s`;
  if (s < 2 * 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${(s / 86400).toFixed(1)} days`;
}
