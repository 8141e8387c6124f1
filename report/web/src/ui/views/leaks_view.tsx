// Stacks ranked by how certainly and how fast they grow.
import { formatRough, formatSigned, formatValue, grouped } from "../../core/units";
import { hoursText, isLeak, mainKind, rateUnit, worst, type Growth, type Leak, type Shape } from "../../core/leaks";
import { nameOf, type App } from "../app_api";
import { useMedia } from "../media";
import { Name } from "../name";

const shapeHelp: Record<Shape, string> = {
  growing: "rises, and still at the end",
  steps: "rises again and again, with pauses",
  plateau: "rose, and no longer does: a cache that has warmed up",
  "saw-tooth": "rises and falls: a queue, a buffer that is emptied",
  "one-off": "one step, or there from the beginning: a table made at the start",
  undecided: "rises at the end; too little of that was seen to say whether it goes on",
  noise: "nothing that the sampling error would let one see",
};

export function Sparkline({ points }: { points: number[] }) {
  const most = Math.max(1, ...points);
  const width = 84;
  const height = 22;
  const path = points
    .map((value, i) => `${i === 0 ? "M" : "L"}${((i / Math.max(1, points.length - 1)) * width).toFixed(1)} ${(height - 2 - (value / most) * (height - 4)).toFixed(1)}`)
    .join("");
  return (
    <svg class="spark" width={width} height={height} aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

/** Returns "> 20 s": a lower bound of the age, as precise as the age buckets. */
const older = (ns: number): string => (ns === 0 ? "< 1 µs" : `> ${formatRough(ns)}`);

/** Returns the functions of a stack of the report, innermost first. */
export function stackOf(app: App, node: number): number[] {
  const { parent, frame, frameFunction } = app.model.report;
  const stack: number[] = [];
  for (let i = node; i > 0; i = parent[i]!) stack.push(frameFunction[frame[i]!]!);
  return stack;
}

/** Returns the innermost function that is not plumbing: the owner. */
export function ownOf(app: App, stack: number[]): number {
  return stack.find((fn) => app.model.report.functionPlumbing[fn] === 0) ?? stack[0] ?? -1;
}

/** "redis-server (42)" */
function programOf(app: App, process: string): string {
  const series = app.model.report.series.find((s) => s.process === process && !s.base);
  return series === undefined ? "files of no known process" : `${series.program}${series.pid === "" ? "" : ` (${series.pid})`}`;
}

/** "redis-server (42), mappings"; without the program where all are of one process, so that "" is its heap. */
function whoseOf(app: App, { process, kind }: { process: string; kind: Growth["kind"] }): string {
  const several = new Set(app.model.report.growths.map((growth) => growth.process)).size > 1;
  return [...(several ? [programOf(app, process)] : []), ...(kind === "map" ? ["mappings"] : [])].join(", ");
}

/** "4", "1,234.5": as many digits as the slope is accurate. */
function slopeOfObjects(value: number): string {
  const text = Math.abs(value) >= 1000 ? grouped(Math.abs(value)) : String(Math.abs(Number(value.toPrecision(4))));
  return value < 0 && text !== "0" ? `−${text}` : text;
}

/** "109 MiB → 209 MiB in 1min 2s, still rising, mostly by hsetCommand": as in `holdfast leaks`. */
export function Rise({ app, growth }: { app: App; growth: Growth }) {
  const { before, hours, largest, by } = growth.answer;
  return (
    <>
      <b>
        {growth.now > before ? `${formatValue(before, "bytes")} → ${formatValue(growth.now, "bytes")}` : `${formatValue(growth.now, "bytes")} in use`}
      </b>
      {growth.now > before && ` in ${hoursText(hours)}, still rising`}
      {by !== "" && (
        <>
          , {by} <b class="fn-text">{app.model.shortName(ownOf(app, largest))}</b>
        </>
      )}
    </>
  );
}

function Course({ app, growth, rate: { anHour, words } }: { app: App; growth: Growth; rate: ReturnType<typeof rateUnit> }) {
  return (
    <p class="muted">
      {whoseOf(app, growth) === "" ? "Altogether: " : <b>{whoseOf(app, growth)}: </b>}
      {formatValue(growth.now, "bytes")} {growth.kind === "map" ? "mapped" : "in use"}
      {growth.births !== true && `, ${formatSigned(growth.slope / anHour, "bytes")} ± ${formatValue(growth.halfWidth / anHour, "bytes")} ${words} (${growth.shape})`}, {growth.snapshots}{" "}
      {growth.snapshots === 1 ? "snapshot" : "snapshots"} {growth.births === true && "and the ages of live blocks, "}over {hoursText(growth.hours)}
    </p>
  );
}

const shownOthers = 30;

export function LeaksView({ app }: { app: App }) {
  const { model, state } = app;
  const isPhone = useMedia("(max-width: 560px)");
  const growths = model.growths(state);
  if (app.live && growths.length === 0) {
    return (
      <div class="empty" role="status">
        <p>
          <b>What grows is decided over the snapshots that are written: at least four, of files that holdfast serve can read.</b>
        </p>
        <p>What has grown since a moment ago, “Compare with a moment ago” shows in every view.</p>
      </div>
    );
  }
  if (growths.length === 0) {
    return (
      <div class="empty" role="status">
        <p>
          <b>Growth needs at least four snapshots of one process.</b>
        </p>
        <p>
          Let the program run longer, or take them more often: <code>holdfast run --snapshot-every 10s -- …</code>, then make the report of
          the whole folder.
        </p>
      </div>
    );
  }
  const rising = worst(growths);
  const { anHour, words } = rateUnit(growths);
  const matches = model.matches(state.search);
  const isFiltered = state.chips.length > 0 || matches !== null;
  const leaks = model.leaks(state).filter(({ stack }) => model.passes(state, stack) && (matches === null || stack.some((fn) => matches[fn] === 1)));
  const listed = leaks.filter((leak) => isLeak(leak));
  const growing = isFiltered ? listed.length : growths.reduce((sum, growth) => sum + growth.growing, 0);
  const shown = leaks.slice(0, Math.max(listed.length, shownOthers));
  const ages = shown.some(({ halfAge }) => halfAge >= 0);
  // A heap on mappings is in both: no sum.
  const all = mainKind(listed).reduce((sum, leak) => sum + leak.slope, 0);
  return (
    <section class="view scroll" aria-label="Leaks" tabIndex={0}>
      <p class="lead">
        {growing > 0 ? (
          <>
            <b>{growing === 1 ? "One stack grows" : `${grouped(growing)} stacks grow`} all the time</b>
            {growing > 1 ? ", together" : ""} by {formatSigned(all / anHour, "bytes")} {words}.
            {growing > listed.length && ` The surest ${grouped(listed.length)} stand here.`}
          </>
        ) : rising !== undefined && (rising.answer.grows === "growing" || rising.answer.grows === "grows in steps") && !isFiltered ? (
          <>
            <b>The sum grows, no single stack surely.</b> {rising.answer.text}. Those that hold most:
          </>
        ) : rising !== undefined && rising.answer.grows !== "level" && !isFiltered ? (
          <>
            <b>No stack grows surely.</b> {rising.answer.text}. Those that hold most:
          </>
        ) : (
          <>
            <b>No stack grows all the time.</b> {rising !== undefined && !isFiltered && `${rising.answer.text}. `}Those that hold most:
          </>
        )}
      </p>
      {model.isPart(state) && (
        <p class="muted" data-testid="whole-run">
          Of the whole run: growth is found over all snapshots and all samples, the range, weight and labels that are chosen do not change it.
        </p>
      )}
      {growths.map((growth) => (
        <Course key={`${growth.kind} ${growth.process}`} app={app} growth={growth} rate={rateUnit(growths)} />
      ))}
      {growths.flatMap(({ process, memory }) => memory.map((line) => (
        <p key={`${process} ${line}`} class="muted" data-testid="memory-line">
          {new Set(growths.map((growth) => growth.process)).size > 1 && <b>{programOf(app, process)}: </b>}
          Memory: {line}.
        </p>
      )))}
      <table class="data leaks" data-testid="leaks">
        <caption>
          As <code>holdfast leaks</code> prints it. Slope: what more is in use than when the rise began, ± its 95 % interval. A short run proves
          little.
        </caption>
        <thead>
          <tr>
            {isPhone && <th scope="col">Held by</th>}
            <th scope="col">Class</th>
            <th scope="col" class="num">
              Bytes {words}
            </th>
            <th scope="col" class="num">
              ±
            </th>
            <th scope="col" class="num">
              Objects {words}
            </th>
            <th scope="col" class="num">
              In use
            </th>
            <th scope="col" class="num">
              Objects
            </th>
            {ages && (
              <th scope="col" class="num" title="Half of what is in use is older than the first, the oldest of it older than the second, at the newest snapshot">
                Half, oldest
              </th>
            )}
            <th scope="col">Course</th>
            {!isPhone && <th scope="col">Held by</th>}
          </tr>
        </thead>
        <tbody>
          {shown.map((leak) => {
            const own = ownOf(app, leak.stack);
            const [holder, ...callers] = leak.text.split(" ← ");
            const name = (
                <td class="name">
                  <button
                    class="fn"
                    title={leak.stack.map((fn) => nameOf(app, fn)).join("\n")}
                    onClick={() => app.set({ metric: `${leak.kind}/inuse_space`, view: "flame", inverted: false, fold: true, zoom: [...leak.stack].reverse(), selected: own })}
                  >
                    <Name text={holder!} />
                    {callers.length > 0 && <span class="fn-object callers">← {callers.join(" ← ")}</span>}
                    {whoseOf(app, leak) !== "" && <span class="fn-object">{whoseOf(app, leak)}</span>}
                  </button>
                </td>
            );
            return (
              <tr key={`${leak.kind} ${leak.process} ${leak.stack.join(" ")}`} data-text={leak.text}>
                {isPhone && name}
                <td>
                  <span class={`shape ${leak.shape}`} title={shapeHelp[leak.shape]}>
                    {leak.shape}
                  </span>
                </td>
                <td class="num">{formatSigned(leak.slope / anHour, "bytes")}</td>
                <td class="num muted">{formatValue(leak.halfWidth / anHour, "bytes")}</td>
                <td class="num muted">{slopeOfObjects(leak.objectSlope / anHour)}</td>
                <td class="num">{formatValue(leak.now, "bytes")}</td>
                <td class="num muted">{grouped(leak.objectsNow)}</td>
                {ages && <td class="num muted">{leak.halfAge < 0 ? "" : `${older(leak.halfAge)}, ${older(leak.oldestAge)}`}</td>}
                <td>
                  <Sparkline points={leak.course} />
                </td>
                {!isPhone && name}
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
