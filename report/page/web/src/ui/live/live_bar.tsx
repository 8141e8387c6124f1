// The bar of a live page above the report: whether data arrives, and who waits now.
import { useEffect, useMemo, useState } from "preact/hooks";
import { threadName, waitingSummary, type WaitingThread } from "../../core/waiting";
import { formatDuration, formatRough } from "../../core/units";
import type { App } from "../app_api";
import type { Live } from "./feed";
import { HolderSearch } from "./holders";
import { clockText } from "../plot";

/** Draws again whenever the feed changes. */
export function useLive(live: Live): void {
  const [, draw] = useState(0);
  useEffect(() => live.listen(() => draw((count) => count + 1)), [live]);
}

const agoText = (ms: number): string => `${formatDuration(Math.max(1000, Math.round(ms / 1000) * 1000))} ago`;

/** What holds the memory: searched when the button is pressed, and never before. */
function Holders({ app, live }: { app: App; live: Live }) {
  const search = useMemo(() => new HolderSearch(live), [live]);
  const [, draw] = useState(0);
  useEffect(() => search.listen(() => draw((count) => count + 1)), [search]);
  const { state, percent, message, at } = search.status;
  const series = app.model.report.series.find(({ kind }) => kind === "holders");
  const isThere = state === "done" && series !== undefined && series.snapshots.length > 0;
  useEffect(() => {
    if (!isThere || !search.isWanted) return;
    search.isWanted = false;
    app.set({ metric: "holders/held_space", view: "flame", zoom: [], selected: -1 });
  }, [isThere, at]);
  return (
    <>
      <button disabled={live.isOver || state === "running"} onClick={() => search.start()} title="Reads all memory of the program once, without stopping it: 2 to 4 s of CPU for each GiB">
        {state === "running" ? `Reading memory, ${percent} %` : at > 0 ? "Find holders again" : "Find holders"}
      </button>
      <span role="status" data-testid="holders-state" data-state={state} class={state === "failed" ? "live-failed" : "muted"}>
        {state === "failed" ? `Not found: ${message}` : at > 0 ? `Holders as of ${clockText(at, true)}` : ""}
      </span>
    </>
  );
}

export function LiveBar({ app, live, keep }: { app: App; live: Live; keep: () => void }) {
  useLive(live);
  const { model, state } = app;
  const { status } = live;
  const moments = model.moments(state);
  const now = moments[moments.length - 1] ?? 0;
  const compared = state.compare?.type === "time";
  const stop = () => app.set({ compare: null, from: -1 });
  const compare = (from: number) => app.set({ compare: { type: "time" }, from, to: -1, mean: false, weight: null, zoom: [] });
  // Ten seconds, or what there is: soon enough to see what a click has done.
  const before = [...moments].reverse().find((ms) => ms <= now - 10_000) ?? moments[0];
  const base = compared && state.from >= 0 ? [...moments].reverse().find((ms) => ms <= state.from) ?? moments[0] : undefined;
  return (
    <section class={`live-bar ${status.state}`} aria-label="Live">
      <span class="live-state" data-testid="live-state" data-state={status.state}>
        <i aria-hidden="true" />
        <span role="status">{status.text}</span>
      </span>
      <button aria-pressed={live.isPaused} disabled={live.isOver} onClick={() => live.pause(!live.isPaused)}>
        {live.isPaused ? "Resume" : "Pause"}
      </button>
      {compared ? (
        <>
          <button aria-pressed={true} onClick={stop}>
            Stop comparing
          </button>
          <label>
            with{" "}
            <select value={String(base)} onChange={(event) => compare(Number(event.currentTarget.value))} data-testid="live-base">
              {moments.slice(0, -1).reverse().map((ms) => (
                <option key={ms} value={String(ms)}>
                  {clockText(ms, true)}, {agoText(now - ms)}
                </option>
              ))}
            </select>
          </label>
        </>
      ) : (
        <button disabled={moments.length < 2} onClick={() => compare(before!)} title="Every view shows what has changed since then, and stays live">
          Compare with a moment ago
        </button>
      )}
      <Holders app={app} live={live} />
      <button onClick={keep} title="Save all that this page has seen as a report in one file">
        Save as a file
      </button>
      <a href="/">All programs</a>
    </section>
  );
}

/** The calls of a wait, as `holdfast stuck` names them. */
function Calls({ app, calls }: { app: App; calls: string[] }) {
  const { model } = app;
  return (
    <>
      {calls.map((name, i) => {
        const func = model.named(name);
        return (
          <span key={i}>
            {i > 0 && <span class="muted"> ← </span>}
            {func < 0 ? (
              <span class="fn-text">{name}</span>
            ) : (
              <button class="fn" title={model.report.names[func]} onClick={() => app.set({ metric: "block/delay", selected: func, zoom: [], view: "sandwich" })}>
                {name}
              </button>
            )}
          </span>
        );
      })}
    </>
  );
}

function heldBy(holder: WaitingThread | null, known: string, readers: number): string {
  if (readers > 0) return `${readers} reader${readers === 1 ? "" : "s"}`;
  if (holder === null) return known === "free" ? "nobody" : "";
  return `${threadName(holder)}${holder.ended === true ? ", which has exited" : holder.does ? `, ${holder.does}` : ""}${known === "last to get it" ? " (last to get it)" : known === "when the wait began" ? " (then)" : ""}`;
}

const mostShown = 6;

/** Deadlocks first, then the longest waits. Screen readers announce a deadlock once, and not what changes every second. */
export function WaitingNow({ app, live }: { app: App; live: Live | null }) {
  const summary = waitingSummary(app.model.report.waiting);
  const { deadlocks, waited, idle } = summary;
  const held = waited.filter(({ isHeld }) => isHeld);
  const behind = held.reduce((sum, one) => sum + one.behind, 0);
  const text =
    behind > 0
      ? `${behind} ${behind === 1 ? "thread waits" : "threads wait"} for locks, the longest for ${formatRough(held[0]!.longest)}`
      : deadlocks.length > 0 ? "" : "no lock waits seen";
  const rest = [waited.length > held.length ? `${waited.length - held.length} for events` : "", idle > 0 ? `${idle} idle` : ""].filter((part) => part !== "");
  const said = deadlocks.map(({ threads }) => `Deadlock: ${threads.map(({ thread, holds, waitsFor }) => `${threadName(thread)} holds ${holds} and waits for ${waitsFor}`).join("; ")}`).join(". ");
  return (
    <section class={`waiting-now ${deadlocks.length > 0 ? "deadlocked" : behind > 0 ? "some" : ""}`} aria-label="Waiting now" data-testid="waiting-now">
      {live !== null && (
        <p class="visually-hidden" aria-live="polite">
          {said}
        </p>
      )}
      {deadlocks.map(({ since, threads }) => (
        <div class="deadlock" key={threads.map(({ thread }) => thread.tid).join()} data-testid="deadlock">
          <p>
            <b>Deadlock</b>: {threads.length === 1 ? "a thread waits for itself" : `${threads.length} threads wait for each other`}, since {formatRough(since)}
          </p>
          <ul>
            {threads.slice(0, 8).map(({ thread, holds, waitsFor, calls }) => (
              <li key={thread.tid}>
                <b>{threadName(thread)}</b> holds <b>{holds}</b>, waits for <b>{waitsFor}</b> in <Calls app={app} calls={calls} />
              </li>
            ))}
          </ul>
        </div>
      ))}
      <p class="waiting-head">
        <b>Waiting now</b> {[text, ...rest].filter((part) => part !== "").join("; ") || "nothing else"}
      </p>
      {waited.length > 0 && (
        <ul class="waited">
          {waited.slice(0, mostShown).map(({ kind, lock, longest, behind, calls, holder, known, readers, isHeld }) => (
            <li key={`${kind} ${lock}`} class={isHeld ? "" : "muted"}>
              <b>{lock === "" ? kind : lock}</b> <span class="muted">{lock === "" ? "" : kind}</span> {formatRough(longest)}, {behind} behind
              {heldBy(holder, known, readers) !== "" && <>, held by {heldBy(holder, known, readers)}</>}: <Calls app={app} calls={calls} />
            </li>
          ))}
          {waited.length > mostShown && <li class="muted">and {waited.length - mostShown} more: holdfast stuck lists all</li>}
        </ul>
      )}
    </section>
  );
}
