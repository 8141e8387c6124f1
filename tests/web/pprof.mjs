// Writes pprof files for tests, independently of the tool's own writer: a stack is a list of names, outermost first.
//
//   writeProfile(path, { kind: "heap", samples: [{ stack: ["main", "parse"], values: [1, 64, 1, 64], labels: { bytes: 64 } }] })
//
// A frame may be a name or { name, file, line, object, inlined: [names, outermost first, inlined into it] }.
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const types = {
  heap: [["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]],
  map: [["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]],
  block: [["contentions", "count"], ["delay", "nanoseconds"]],
  mutex: [["contentions", "count"], ["delay", "nanoseconds"]],
  peak: [["peak_objects", "count"], ["peak_space", "bytes"]],
  cpu: [["samples", "count"], ["cpu", "nanoseconds"]],
};

class Message {
  constructor() {
    this.bytes = Buffer.alloc(64);
    this.length = 0;
  }
  room(more) {
    if (this.length + more <= this.bytes.length) return;
    const larger = Buffer.alloc(Math.max(this.bytes.length * 2, this.length + more));
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
  raw(value) {
    this.room(10);
    if (value < 0) {
      // Two's complement of 64 bits, as protobuf has it.
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest >= 128n; rest >>= 7n) this.bytes[this.length++] = Number(rest & 127n) | 128;
      this.bytes[this.length++] = Number(rest);
      return this;
    }
    for (; value >= 128; value = Math.floor(value / 128)) this.bytes[this.length++] = (value % 128) | 128;
    this.bytes[this.length++] = value;
    return this;
  }
  number(field, value) {
    return value === 0 ? this : this.raw(field * 8).raw(value);
  }
  part(field, bytes) {
    this.raw(field * 8 + 2).raw(bytes.length).room(bytes.length);
    bytes.copy(this.bytes, this.length);
    this.length += bytes.length;
    return this;
  }
  message(field, message) {
    return this.part(field, message.done());
  }
  packed(field, values) {
    const list = new Message();
    for (const value of values) list.raw(value);
    return this.message(field, list);
  }
  done() {
    return this.bytes.subarray(0, this.length);
  }
}

export function encodeProfile({
  kind = "heap",
  samples,
  program = "app",
  pid = 42,
  ms = 1_700_000_000_000,
  interval = 1,
  comments = [],
  process = `box/1/${pid}/7/0`,
  dropFrames = "", // an expression
  level = 6,
  encoding = "utf8", // of all strings
}) {
  const strings = [""];
  const ids = new Map([["", 0]]);
  const string = (text) => {
    if (!ids.has(text)) {
      ids.set(text, strings.length);
      strings.push(text);
    }
    return ids.get(text);
  };
  const out = new Message();
  const sampleTypes = types[kind];
  for (const [name, unit] of sampleTypes) out.message(1, new Message().number(1, string(name)).number(2, string(unit)));
  const functions = new Map();
  const locations = new Map();
  const objects = new Map([["/usr/bin/" + program, 1]]);
  const functionOf = (name, file) => {
    const key = `${name}\0${file}`;
    if (!functions.has(key)) functions.set(key, { id: functions.size + 1, name, file });
    return functions.get(key).id;
  };
  const named = new Map();
  const locationOf = (frame) => {
    let id = named.get(frame);
    if (id === undefined) named.set(frame, (id = newLocationOf(frame)));
    return id;
  };
  const newLocationOf = (frame) => {
    const { name, file = "", line = 0, object = "/usr/bin/" + program, inlined = [] } = typeof frame === "string" ? { name: frame } : frame;
    const key = JSON.stringify([name, file, line, object, inlined]);
    if (!locations.has(key)) {
      if (!objects.has(object)) objects.set(object, objects.size + 1);
      const lines = [...inlined].reverse().map((inner) => [functionOf(inner, file), line]);
      lines.push([functionOf(name, file), line]);
      locations.set(key, { id: locations.size + 1, object: objects.get(object), lines });
    }
    return locations.get(key).id;
  };
  const sample = new Message();
  const list = new Message();
  for (const { stack, values, labels = {} } of samples) {
    sample.length = list.length = 0;
    for (let i = stack.length - 1; i >= 0; --i) list.raw(locationOf(stack[i]));
    sample.message(1, list);
    list.length = 0;
    for (const value of values) list.raw(value);
    sample.message(2, list);
    for (const [name, value] of Object.entries(labels)) {
      const label = new Message().number(1, string(name));
      if (typeof value === "number") label.number(3, value).number(4, string("bytes"));
      else label.number(2, string(value));
      sample.message(3, label);
    }
    out.message(2, sample);
  }
  for (const [path, id] of objects) {
    out.message(3, new Message().number(1, id).number(2, id * 0x10000000).number(3, id * 0x10000000 + 0x1000000).number(5, string(path)).number(7, 1));
  }
  for (const { id, object, lines } of locations.values()) {
    const location = new Message().number(1, id).number(2, object).number(3, object * 0x10000000 + id);
    for (const [fn, line] of lines) location.message(4, new Message().number(1, fn).number(2, line));
    out.message(4, location);
  }
  for (const { id, name, file } of functions.values()) {
    out.message(5, new Message().number(1, id).number(2, string(name)).number(4, string(file)).number(5, file === "" ? 0 : 1));
  }
  const all = [`kind: ${kind}`, `process: ${process}`, `program: ${program}`, `executable: /usr/bin/${program}`, `pid: ${pid}`];
  all.push(`interval: ${interval} ${kind === "heap" || kind === "map" ? "bytes" : "ns"}`, "losses: none", ...comments);
  const commentIds = all.map(string);
  const period = new Message().number(1, string(kind === "heap" ? "space" : "contentions")).number(2, string(kind === "heap" ? "bytes" : "count"));
  const defaultType = string({ heap: "inuse_space", map: "inuse_space", cpu: "cpu" }[kind] ?? "delay");
  const drop = string(dropFrames);
  for (const text of strings) out.part(6, Buffer.from(text, encoding));
  out.number(7, drop).number(9, ms * 1e6).message(11, period).number(12, kind === "heap" ? interval : 1);
  out.packed(13, commentIds).number(14, defaultType);
  return gzipSync(out.done(), { level });
}

export function writeProfile(path, profile) {
  writeFileSync(path, encodeProfile(profile));
  return path;
}

/** A heap sample: `bytes` allocated in `objects` blocks; the part `kept` is in use. */
export function heap(stack, bytes, objects = 1, kept = 1, labels = {}) {
  return { stack, values: [objects, bytes, Math.round(objects * kept), Math.round(bytes * kept)], labels: { bytes: Math.max(1, Math.round(bytes / objects)), ...labels } };
}

/** Five samples of one path, each deeper than the one before: what is self and what total is plain to see. */
export const shared = [
  heap(["main", "handle_request"], 100),
  heap(["main", "handle_request", "parse_json"], 200),
  heap(["main", "handle_request", "parse_json", "validate"], 300),
  heap(["main", "handle_request", "process_data"], 400),
  heap(["main", "handle_request", "process_data", "apply"], 500),
];

/** A random tree of about `nodes` stack nodes, the same for the same seed. */
export function randomStacks(nodes, seed = 1, functions = 600, depth = 40) {
  let state = seed;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const names = Array.from({ length: functions }, (_, i) => `${["net", "db", "json", "cache", "ui"][i % 5]}::${["Read", "Parse", "Insert", "Grow", "Walk", "Copy"][i % 6]}Thing${i}(Context const&, int)`);
  const samples = [];
  const open = [["main"]];
  for (let made = 1; made < nodes; ) {
    const at = open[Math.floor(random() * open.length)];
    const stack = [...at, names[Math.floor(random() * random() * functions)]];
    ++made;
    if (stack.length < depth) open[open.length < 4000 ? open.length : Math.floor(random() * 4000)] = stack;
    if (random() < 0.7) samples.push(heap(stack, Math.ceil(Math.exp(random() * 14)), 1 + Math.floor(random() * 20), random()));
  }
  return samples;
}
