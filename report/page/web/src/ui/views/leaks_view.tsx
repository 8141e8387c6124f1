// Stacks ranked by how certainly and how fast they grow.
import { formatRough, formatSigned, formatValue, grouped } from "../../core/units";
import { hoursText, mainKind, rateUnit, worst, type Growth, type Leak, type Rate, type Shape } from "../../core/leaks";
import { nameOf, type App } from "../app_api";
import { useMedia } from "../media";
import { Name } from "../name";
import { number, TableHead } from "../tables";

const shapeHelp: Record<Shape, string> = {
  growing: "rises until the end",
  steps: "rises repeatedly, with pauses",
  plateau: "rose and stopped: for example a cache that has warmed up",
  "saw-tooth": "rises and falls: for example a queue or a buffer",
  "one-off": "one step at the start: for example a table",
  undecided: "rises at the end, but too shortly to tell whether it goes on",
  noise: "no change above the sampling error",
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
  return series === undefined ? "files of an unknown process" : `${series.program}${series.pid === "" ? "" : ` (${series.pid})`}`;
}

/** "redis-server (42), mappings"; without the program where all are of one process, so that "" is its heap. */
function namesOf(app: App, { process, kind }: { process: string; kind: Growth["kind"] }): string {
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
  const { before, hours, largest, by, goesOn } = growth.answer;
  return (
    <>
      <b>
        {growth.now > before ? `${formatValue(before, "bytes")} → ${formatValue(growth.now, "bytes")}` : `${formatValue(growth.now, "bytes")} in use`}
      </b>
      {growth.now > before && ` in ${hoursText(hours)}${goesOn ? ", still rising" : ""}`}
      {by !== "" && (
        <>
          , {by} <b class="fn-text">{app.model.shortName(ownOf(app, largest))}</b>
        </>
      )}
    </>
  );
}

function Course({ app, growth, rate: { anHour, words } }: { app: App; growth: Growth; rate: Rate }) {
  return (
    <p class="muted">
      {namesOf(app, growth) === "" ? "In all: " : <b>{namesOf(app, growth)}: </b>}
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
          <b>Growth needs at least four snapshots in files that holdfast serve can read.</b>
        </p>
        <p>“Compare with a moment ago” shows in every view what has grown since then.</p>
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
          Let the program run longer, or take snapshots more often: <code>holdfast run --snapshot-every 10s -- …</code>, then make a report of
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
  const listed = leaks.filter((leak) => leak.leaks);
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
            {growing > listed.length && ` The table lists the surest ${grouped(listed.length)}.`}
          </>
        ) : rising !== undefined && (rising.answer.grows === "growing" || rising.answer.grows === "grows in steps") && !isFiltered ? (
          <>
            <b>The sum grows, but no single stack surely does.</b> {rising.answer.text}. The largest holders:
          </>
        ) : rising !== undefined && rising.answer.grows !== "level" && !isFiltered ? (
          <>
            <b>It is not certain that any stack grows.</b> {rising.answer.text}. The largest holders:
          </>
        ) : (
          <>
            <b>No stack grows all the time.</b> {rising !== undefined && !isFiltered && `${rising.answer.text}. `}The largest holders:
          </>
        )}
      </p>
      {model.isPart(state) && (
        <p class="muted" data-testid="whole-run">
          This is about the whole run: growth is found over all snapshots and samples, whatever range, weight and labels are chosen.
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
          As <code>holdfast leaks</code> prints it. Slope: how fast the memory in use has grown since the rise began, ± its 95 % interval. A short run proves
          little.
        </caption>
        <TableHead
          columns={[
            isPhone && "Held by", "Class", number(`Bytes ${words}`), number("±"), number(`Objects ${words}`), number("In use"), number("Objects"),
            ages && number("Half, oldest", "Ages at the newest snapshot: half of the memory in use is older than the first, the oldest block older than the second"), "Course", !isPhone && "Held by",
          ]}
        />
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
                    {namesOf(app, leak) !== "" && <span class="fn-object">{namesOf(app, leak)}</span>}
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
