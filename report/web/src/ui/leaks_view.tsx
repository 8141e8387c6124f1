// Stacks ranked by how surely and how fast what they hold grows.
import { formatDuration, formatSigned, formatValue, grouped, rateUnit } from "../core/units";
import type { Leak } from "../core/leaks";
import { nameOf, type App } from "./app_api";

const shapeHelp: Record<Leak["shape"], string> = {
  growing: "grows steadily, surely above zero",
  plateau: "stays about where it is",
  "saw-tooth": "goes up and down: a cache or a queue",
  "one-off": "one step, then nothing: a table made at start",
  shrinking: "gives back",
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

/** The functions of a stack of the report, innermost first. */
export function stackOf(app: App, node: number): number[] {
  const { parent, frame, frameFunction } = app.model.report;
  const stack: number[] = [];
  for (let i = node; i > 0; i = parent[i]!) stack.push(frameFunction[frame[i]!]!);
  return stack;
}

/** The innermost function that is not the system's: what a reader knows. */
export function ownOf(app: App, stack: number[]): number {
  return stack.find((fn) => app.model.origin(app.state, fn) !== "system") ?? stack[0] ?? -1;
}

export function LeaksView({ app }: { app: App }) {
  const { model, state } = app;
  const leaks = model.leaks(state);
  if (leaks.length === 0) {
    return (
      <div class="empty" role="status">
        <p>
          <b>Growth needs at least three snapshots of one process.</b>
        </p>
        <p>
          Let the program run longer, or take them more often: <code>holdfast run --snapshot-every 10s -- …</code>, then make the report of
          the whole folder.
        </p>
      </div>
    );
  }
  const growing = leaks.filter((leak) => leak.shape === "growing");
  const shown = leaks.slice(0, Math.max(growing.length, 30));
  const moments = model.moments({ ...state, metric: "heap/inuse_space" });
  const span = moments[moments.length - 1]! - moments[0]!;
  const rate = rateUnit(span);
  const all = growing.reduce((sum, leak) => sum + leak.slope, 0) * rate.seconds;
  return (
    <section class="view scroll" aria-label="Leaks" tabIndex={0}>
      <p class="lead">
        {growing.length > 0 ? (
          <>
            <b>{growing.length === 1 ? "One stack grows" : `${growing.length} stacks grow`} steadily</b>, {formatSigned(all, "bytes")} {rate.name} together,
            over {formatDuration(span)}.
          </>
        ) : (
          <>
            <b>Nothing grows steadily</b> over {leaks[0]!.points.length} snapshots. What follows is what changed most.
          </>
        )}
      </p>
      <table class="data" data-testid="leaks">
        <caption>Slope: the median over all pairs of snapshots (Theil–Sen), with its 95 % interval. A short run proves little.</caption>
        <thead>
          <tr>
            <th scope="col">Shape</th>
            <th scope="col" class="num">
              {rate.name}
            </th>
            <th scope="col" class="num">
              between
            </th>
            <th scope="col" class="num">
              objects {rate.name}
            </th>
            <th scope="col" class="num">
              First
            </th>
            <th scope="col" class="num">
              Last
            </th>
            <th scope="col">Course</th>
            <th scope="col">Held by</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((leak) => {
            const stack = stackOf(app, leak.node);
            const own = ownOf(app, stack);
            const caller = stack[stack.indexOf(own) + 1];
            return (
              <tr key={`${leak.process} ${leak.node}`}>
                <td>
                  <span class={`shape ${leak.shape}`} title={shapeHelp[leak.shape]}>
                    {leak.shape}
                  </span>
                </td>
                <td class="num">{formatSigned(leak.slope * rate.seconds, "bytes")}</td>
                <td class="num muted">
                  {formatSigned(leak.low * rate.seconds, "bytes")} … {formatSigned(leak.high * rate.seconds, "bytes")}
                </td>
                <td class="num muted">{grouped(leak.objectSlope * rate.seconds)}</td>
                <td class="num muted">{formatValue(leak.first, "bytes")}</td>
                <td class="num">{formatValue(leak.last, "bytes")}</td>
                <td>
                  <Sparkline points={leak.points} />
                </td>
                <td class="name">
                  <button
                    class="fn"
                    title={stack.map((fn) => nameOf(app, fn)).join("\n")}
                    onClick={() => app.set({ metric: "heap/inuse_space", view: "flame", inverted: false, zoom: [...stack].reverse(), selected: own })}
                  >
                    <span class="fn-name">{nameOf(app, own)}</span>
                    {caller !== undefined && <span class="fn-object">from {model.shortName(caller)}</span>}
                  </button>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}
