// One lane per thread over time, coloured by what the thread did. A range can be brushed, as on the timeline.
import { useState } from "preact/hooks";
import { allLanes, laneStates, threadsWithoutLane } from "../core/lanes";
import type { App } from "./app_api";
import { clockText } from "./plot";

const mostAtOnce = 24;

export function Lanes({ app }: { app: App }) {
  const [all, setAll] = useState(false);
  const [drag, setDrag] = useState<[from: number, to: number] | null>(null); // parts of the width
  const lanes = allLanes(app.model.report, app.state.process);
  if (lanes.length === 0) return null;
  const without = threadsWithoutLane(app.model.report, app.state.process);
  const first = Math.min(...lanes.map(({ runs }) => runs[0]!.from));
  const last = Math.max(...lanes.map(({ runs }) => runs[runs.length - 1]!.to));
  const x = (ms: number) => (100 * (ms - first)) / Math.max(1, last - first);
  const shown = all ? lanes : lanes.slice(0, mostAtOnce);
  const { from, to } = app.state;
  const range = drag !== null ? [100 * Math.min(...drag), 100 * Math.max(...drag)] : from >= 0 || to >= 0 ? [Math.max(0, from < 0 ? 0 : x(from)), Math.min(100, to < 0 ? 100 : x(to))] : null;
  const at = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / Math.max(1, box.width)));
  };
  const end = () => {
    if (drag === null) return;
    const [a, b] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    if (b - a < 0.005) return app.set({ from: -1, to: -1 }); // a click
    const ms = (part: number) => Math.round(first + part * (last - first));
    app.set({ from: a <= 0 ? -1 : ms(a), to: b >= 1 ? -1 : ms(b) });
  };
  return (
    <section class="lanes" aria-label="Threads over time" data-testid="lanes">
      <p class="lanes-key">
        {laneStates.map((state, i) => lanes.some(({ runs }) => runs.some((run) => run.state === i + 1)) && (
          <span key={state}>
            <i class={`swatch lane-${i + 1}`} /> {state}
          </span>
        ))}
      </p>
      <div class="lanes-body">
        <div class="lanes-names">
          {shown.map((lane, i) => (
            <span key={i} title={lane.name}>
              {lane.name}
            </span>
          ))}
        </div>
        <div
          class="lanes-runs"
          onPointerDown={(event) => {
            if (event.button !== 0) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            setDrag([at(event), at(event)]);
          }}
          onPointerMove={(event) => drag !== null && setDrag([drag[0], at(event)])}
          onPointerUp={end}
          onPointerCancel={() => setDrag(null)}
        >
          <svg viewBox={`0 0 100 ${shown.length * 10}`} preserveAspectRatio="none" style={{ height: `${shown.length * 14}px` }} role="img" aria-label={`${shown.length} threads from ${clockText(first, true)} to ${clockText(last, true)}`}>
            {shown.map((lane, i) =>
              lane.runs.map((run) => (
                <rect key={`${i} ${run.from}`} class={`lane-${run.state}`} x={x(run.from)} width={x(run.to) - x(run.from)} y={i * 10 + 1} height={8}>
                  <title>
                    {lane.name}: mostly {laneStates[run.state - 1]}, {clockText(run.from, true)} to {clockText(run.to, true)}
                  </title>
                </rect>
              )),
            )}
          </svg>
          {range !== null && <i class="brush" style={{ left: `${range[0]}%`, width: `${Math.max(0, range[1]! - range[0]!)}%` }} />}
        </div>
      </div>
      {lanes.length > mostAtOnce && (
        <button class="quiet" onClick={() => setAll(!all)}>
          {all ? `Show ${mostAtOnce} threads` : `Show all ${lanes.length} threads${without > 0 ? " that have lanes" : ""}`}
        </button>
      )}
      {without > 0 && (
        <p class="lanes-key">
          {without} more {without === 1 ? "thread has" : "threads have"} no lane: holdfast keeps lanes of the threads that lived longest.
        </p>
      )}
    </section>
  );
}
