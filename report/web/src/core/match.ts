// Patterns that people type: a part of a name, upper and lower case alike; =name is the whole name; /…/ is a regular
// expression. Matched once for each function, never for each node. One that cannot be read is said, not applied.
import type { Report } from "./data";

export function matcher(pattern: string): (text: string) => boolean {
  if (pattern.startsWith("=")) {
    const whole = pattern.slice(1);
    return (text) => text === whole;
  }
  if (pattern.length > 2 && pattern.startsWith("/") && pattern.endsWith("/")) {
    const expression = new RegExp(pattern.slice(1, -1), "i");
    return (text) => expression.test(text);
  }
  const part = pattern.toLowerCase();
  return (text) => text.toLowerCase().includes(part);
}

/** What is wrong with a pattern, in the browser's words; "" when it can be used. */
export function patternError(pattern: string): string {
  if (!(pattern.length > 2 && pattern.startsWith("/") && pattern.endsWith("/"))) return "";
  try {
    matcher(pattern);
    return "";
  } catch (error) {
    return String((error as Error).message).replace(/^Invalid regular expression: /, "");
  }
}

/** By function: 1 where the name (or the source file, or the object) matches. */
export function matchFunctions(report: Report, pattern: string): Uint8Array {
  const matches = new Uint8Array(report.names.length);
  if (pattern === "" || patternError(pattern) !== "") return matches;
  const test = matcher(pattern);
  for (let i = 0; i < matches.length; ++i) if (test(report.names[i]!)) matches[i] = 1;
  return matches;
}
