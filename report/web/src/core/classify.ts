// Where a function belongs: package and origin, by its name and object; and which frames are the system's.
import type { Report } from "./data";

export type Origin = "user" | "library" | "system" | "unknown";
export const origins: Origin[] = ["user", "library", "system", "unknown"];

const systemObject = /^(libc|ld-linux[^/]*|ld|libm|libpthread|libdl|librt|libstdc\+\+|libc\+\+|libc\+\+abi|libgcc_s|libresolv|\[vdso\])(-[\d.]+)?(\.so[.\d]*)?$/;
const systemName = /^(std::|__gnu_cxx::|__cxxabiv1::|_Unwind_|operator new|operator delete|_start$|_init$|__libc_|void std::|bool std::|auto std::|decltype\(auto\) std::|start_thread$|clone3?$|__clone3?$)/;

export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

export function objectOf(report: Report, func: number): string {
  const object = report.functionObject[func]!;
  return object === 0 ? "" : report.objects[object - 1]![0];
}

/** Objects that count as the user's: the main programs (the first object of every file lists the program) and chosen ones. */
function isProgram(report: Report, path: string): boolean {
  const name = baseName(path);
  return report.series.some((series) => {
    const executable = series.comments.find((comment) => comment.startsWith("executable: "))?.slice(12);
    return executable !== undefined ? executable === path || baseName(executable) === name : series.program === name;
  });
}

export function originsOf(report: Report, mine: string[]): Uint8Array {
  const byObject = report.objects.map(([path]) => {
    const name = baseName(path);
    if (mine.includes(name) || isProgram(report, path)) return 0;
    return systemObject.test(name) ? 2 : 1;
  });
  return Uint8Array.from(report.names, (name, i) => {
    if (/^\[.*\]$/.test(name) || name === "<unknown>") return 3;
    const object = report.functionObject[i]!;
    if (systemName.test(name)) return 2;
    return object === 0 ? 3 : byObject[object - 1]!;
  });
}

/** By frame: libc, the loader, libstdc++ and its templates, which a reader rarely wants to see. */
export function systemFrames(report: Report): Uint8Array {
  const byObject = report.objects.map(([path]) => systemObject.test(baseName(path)));
  const byName = report.names.map((name) => systemName.test(name));
  return Uint8Array.from(report.frameFunction, (func, i) => {
    const object = report.frameObject[i]!;
    return byName[func] || (object !== 0 && byObject[object - 1]) ? 1 : 0;
  });
}

/** Namespace, else object, else folder of the source file. */
export function packageOf(report: Report, func: number): string {
  const space = namespaceOf(report.names[func]!);
  if (space !== "") return space;
  const object = objectOf(report, func);
  if (object !== "") return baseName(object);
  const file = report.files[func]!;
  return file.includes("/") ? file.slice(0, file.lastIndexOf("/")) : "(not known)";
}

/** "abc" of "void abc::Table<int>::Grow(char)"; "" where there is none. */
export function namespaceOf(name: string): string {
  let start = 0;
  let depth = 0;
  for (let i = 0; i < name.length; ++i) {
    const c = name[i];
    if (c === "<") ++depth;
    else if (c === ">") --depth;
    else if (depth > 0) continue;
    else if (c === "(" && !name.startsWith("(anonymous", i)) return "";
    else if (c === " ") start = i + 1;
    else if (c === ":" && name[i + 1] === ":") {
      const space = name.slice(start, i);
      return /^[A-Za-z_~(]/.test(space) ? space.replace(/<.*/, "") : "";
    }
  }
  return "";
}

/** "parse_json" of "static std::vector<X> app::parse_json(char const*) const": for a box too narrow for the whole. */
export function shortName(name: string): string {
  if (name.length < 24) return name;
  let depth = 0;
  let out = "";
  for (let i = 0; i < name.length; ++i) {
    const c = name[i]!;
    if (c === "<" && !out.endsWith("operator")) {
      if (depth++ === 0) out += "<…>";
    } else if (c === ">" && depth > 0) {
      --depth;
    } else if (depth === 0) {
      if (c === "(" && out !== "" && !name.startsWith("(anonymous", i)) break;
      out += c;
    }
  }
  return out.length > 0 ? out : name;
}
