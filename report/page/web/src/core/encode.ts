// Encodes a report as the bytes that parseReport reads (format "HFR1", report/page/report_builder.h), to save a live page as a
// file.
import { addColumn, type Report, type Series } from "./data";

class Bytes {
  private bytes = new Uint8Array(1024);
  private length = 0;
  private byte(value: number): void {
    if (this.length === this.bytes.length) {
      const larger = new Uint8Array(this.length * 2);
      larger.set(this.bytes);
      this.bytes = larger;
    }
    this.bytes[this.length++] = value;
  }
  varint(value: number): void {
    for (; value >= 0x80; value = Math.floor(value / 0x80)) this.byte((value % 0x80) | 0x80);
    this.byte(value);
  }
  /** Writes a zigzag varint that Cursor.signed reads. Exact up to 2^53. */
  signed(value: number): void {
    const size = value < 0 ? -value - 1 : value;
    const low = ((size % 64) << 1) | (value < 0 ? 1 : 0);
    if (size < 64) return this.byte(low);
    this.byte(low | 0x80);
    this.varint(Math.floor(size / 64));
  }
  column(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; ++i) this.varint(values[i]!);
  }
  take(): Uint8Array {
    return this.bytes.slice(0, this.length);
  }
}

/** Encodes the differences between one snapshot and the previous one, for addColumn. */
export function encodeColumn(changes: Float64Array): Uint8Array {
  const bytes = new Bytes();
  let zeros = 0;
  for (const change of changes) {
    if (change === 0) {
      ++zeros;
      continue;
    }
    if (zeros > 0) {
      bytes.varint(0);
      bytes.varint(zeros);
      zeros = 0;
    }
    bytes.signed(change);
  }
  return bytes.take();
}

const columnOf = (...columns: ArrayLike<number>[]): Uint8Array => {
  const bytes = new Bytes();
  for (const column of columns) bytes.column(column);
  return bytes.take();
};

/** Encodes the rows by node and labels, with the changes between snapshots. */
function rowsOf(series: Series): Uint8Array[] {
  const order = Int32Array.from({ length: series.rows }, (_, i) => i).sort((a, b) => series.node[a]! - series.node[b]! || series.labels[a]! - series.labels[b]!);
  const sections = [
    columnOf(
      order.map((row, i) => series.node[row]! - (i > 0 ? series.node[order[i - 1]!]! : 0)),
      order.map((row) => series.labels[row]!),
      order.map((row) => series.rank[row]!),
    ),
  ];
  for (const column of series.columns) {
    const changes = new Float64Array(series.rows);
    addColumn(column, changes);
    sections.push(encodeColumn(Float64Array.from(order, (row) => changes[row]!)));
  }
  return sections;
}

export function encodeReport(report: Report): Uint8Array {
  const strings = [...report.names];
  const places = new Map<string, number>();
  const place = (text: string): number => {
    const known = places.get(text);
    if (known !== undefined) return known;
    places.set(text, strings.length);
    return strings.push(text) - 1;
  };
  const functions = columnOf(
    report.files.map((file) => (file === "" ? 0 : place(file) + 1)),
    report.startLines,
    report.functionObject,
    report.functionPackage.map(place),
    report.functionOrigin,
    report.shortNames.map((name, i) => (name === report.names[i] ? 0 : report.names[i]!.startsWith(name) ? 2 * (name.length + 1) : 2 * place(name) + 1)),
  );
  const { frameFunction, frameObject, framePlumbing, frameSystem, frameInlined, parent, frame } = report;
  const frames = columnOf(
    frameFunction.map((func, i) => func - (i > 0 ? frameFunction[i - 1]! : 0)),
    report.frameLine,
    frameObject.map((object, i) => (object << 3) | (framePlumbing[i]! << 2) | (frameSystem[i]! << 1) | frameInlined[i]!),
  );
  const climbs = new Int32Array(parent.length - 1);
  for (let i = 1; i < parent.length; ++i) for (let above = i - 1; above !== parent[i]; above = parent[above]!) ++climbs[i - 1]!;
  const sections = [
    columnOf(strings.map((text) => text.length)),
    new TextEncoder().encode(strings.join("")),
    functions,
    frames,
    columnOf(climbs, frame.subarray(1)),
    ...report.series.flatMap(rowsOf),
  ];
  const { version, objects, opens, waiting } = report;
  const meta = {
    version,
    functions: report.names.length,
    frames: frameFunction.length,
    nodes: parent.length,
    objects,
    labels: report.labelSets.map((set) => set.map(({ key, text, unit, number }) => (Number.isNaN(number) ? [key, text] : [key, number, unit]))),
    series: report.series.map(({ node, labels, rank, columns, ...rest }) => rest),
    sources: [...report.sources].map(([file, lines]) => [file, ...[...lines].flat()]),
    growths: report.growths.map(({ stacks, ...rest }) => ({
      ...rest,
      stacks: stacks.map((leak) => [leak.shape, leak.slope, leak.halfWidth, leak.objectSlope, leak.now, leak.objectsNow, leak.stack, leak.course, leak.text, leak.halfAge, leak.oldestAge, leak.order, leak.leaks]),
    })),
    ...(opens === undefined ? {} : { opens }),
    ...(waiting === undefined ? {} : { waiting }),
    sections: sections.map((section) => section.length),
  };
  const text = new TextEncoder().encode(JSON.stringify(meta));
  const bytes = new Uint8Array(8 + text.length + sections.reduce((sum, section) => sum + section.length, 0));
  bytes.set([0x48, 0x46, 0x52, 0x31]); // HFR1
  new DataView(bytes.buffer).setUint32(4, text.length, true);
  bytes.set(text, 8);
  let at = 8 + text.length;
  for (const section of sections) {
    bytes.set(section, at);
    at += section.length;
  }
  return bytes;
}
