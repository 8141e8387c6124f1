// Formats numbers as `holdfast top` does (report/base/value_units.cc): "86.60MiB", "23.45ms", "12.34%".

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

/**
 * Formats a value with `digits` decimals. Exact halves round to the even digit, as in C++. A value is exactly between two results
 * if value * 2 ** (digits + 1), which is computed without loss, is odd; value * 10 ** digits may only appear to be a half.
 */
function fixed(value: number, digits: number): string {
  if (Math.abs(value * 2 ** (digits + 1)) % 2 !== 1) return value.toFixed(digits);
  const below = Math.floor(value * 10 ** digits);
  return ((below % 2 === 0 ? below : below + 1) / 10 ** digits).toFixed(digits);
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

/** Formats a time that is known to two digits, such as a percentile: "1.1ms", "20ms", "210ms"; "" for none. */
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

/** Formats a duration for a sentence: "250ms", "25.1s", "5min 12s", "3h 12min", "4.5 days" (FormatDuration in C++). */
export function formatDuration(ms: number): string {
  const [second, minute, hour, day] = [1e3, 60e3, 3600e3, 86400e3];
  ms = Math.abs(ms);
  if (ms < 1) return formatValue(ms * 1e6, "nanoseconds");
  if (ms < second) return `${Math.floor(ms)}ms`;
  const tenths = (unit: number) => String(Math.floor((ms * 10) / unit) / 10);
  if (ms < minute) return `${tenths(second)}s`;
  const both = (unit: number, name: string, part: number, partName: string) => {
    const rest = Math.floor((ms % unit) / part);
    return `${Math.floor(ms / unit)}${name}${rest === 0 ? "" : ` ${rest}${partName}`}`;
  };
  if (ms < hour) return both(minute, "min", second, "s");
  if (ms < 3 * day) return both(hour, "h", minute, "min");
  return `${tenths(day)} days`;
}
