// The package and kind of a function. The tool decides (report/analysis/profiles/frame_origin.h) and sends the results as columns. Only the user's
// choice is applied here: which libraries count as their own code.
import type { Report } from "./data";

export type Origin = "user" | "library" | "system" | "unknown";
export const origins: Origin[] = ["user", "library", "system", "unknown"]; // the numbers of FrameOrigin

export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

export function objectOf(report: Report, func: number): string {
  const object = report.functionObject[func]!;
  return object === 0 ? "" : report.objects[object - 1]![0];
}

/** Returns what people call the object: the file's name, or the name with which the program was started. */
export function objectName(report: Report, func: number): string {
  const object = report.functionObject[func]!;
  return object === 0 ? "" : (report.objects[object - 1]![2] ?? baseName(report.objects[object - 1]![0]));
}

/** Returns the origin of each function. Libraries in `mine` count as the user's code. */
export function originsOf(report: Report, mine: string[]): Uint8Array {
  const [user, library] = [origins.indexOf("user"), origins.indexOf("library")];
  return report.functionOrigin.map((origin, i) => (origin === library && mine.includes(baseName(objectOf(report, i))) ? user : origin));
}

/** "…/src/t_hash.c:123": the end of a path tells more than its beginning, and it is read from left to right. */
export function shortPath(path: string, most = 34): string {
  if (path.length <= most) return path;
  const parts = path.split("/");
  let end = parts.pop()!;
  while (parts.length > 0 && parts[parts.length - 1]!.length + end.length + 3 <= most) end = `${parts.pop()!}/${end}`;
  return `…/${end}`;
}
