// Patterns that people type: a part of a name, upper and lower case alike; =name is the whole name; /…/ is a regular
// expression. Matched once for each function, never for each node.
import type { Report } from "./data";

export function matcher(pattern: string): (text: string) => boolean {
  if (pattern.startsWith("=")) {
    const whole = pattern.slice(1);
    return (text) => text === whole;
  }
  if (pattern.length > 2 && pattern.startsWith("/") && pattern.endsWith("/")) {
    try {
      const expression = new RegExp(pattern.slice(1, -1), "i");
      return (text) => expression.test(text);
    } catch {
      return () => false;
    }
  }
  const part = pattern.toLowerCase();
  return (text) => text.toLowerCase().includes(part);
}

export function isValidPattern(pattern: string): boolean {
  if (!(pattern.length > 2 && pattern.startsWith("/") && pattern.endsWith("/"))) return true;
  try {
    return new RegExp(pattern.slice(1, -1)) instanceof RegExp;
  } catch {
    return false;
  }
}

/** By function: 1 where the name (or the source file, or the object) matches. */
export function matchFunctions(report: Report, pattern: string): Uint8Array {
  const matches = new Uint8Array(report.names.length);
  if (pattern === "") return matches;
  const test = matcher(pattern);
  for (let i = 0; i < matches.length; ++i) if (test(report.names[i]!)) matches[i] = 1;
  return matches;
}
