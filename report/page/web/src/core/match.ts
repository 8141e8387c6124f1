// Patterns that users type: a part of a name, ignoring case; =name is the whole name; /…/ is a regular expression. Matched once per
// function, never per node. An invalid pattern is reported and not applied.
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

/** Returns the browser's message for an invalid pattern, or "". */
export function patternError(pattern: string): string {
  if (!(pattern.length > 2 && pattern.startsWith("/") && pattern.endsWith("/"))) return "";
  try {
    matcher(pattern);
    return "";
  } catch (error) {
    return String((error as Error).message).replace(/^Invalid regular expression: /, "");
  }
}

/** Returns 1 for each function with a matching name, source file or object. */
export function matchFunctions(report: Report, pattern: string): Uint8Array {
  const matches = new Uint8Array(report.names.length);
  if (pattern === "" || patternError(pattern) !== "") return matches;
  const test = matcher(pattern);
  for (let i = 0; i < matches.length; ++i) if (test(report.names[i]!)) matches[i] = 1;
  return matches;
}
