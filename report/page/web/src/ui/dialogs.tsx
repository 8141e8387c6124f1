// Dialogs over the page: keys and terms, and what the profile says about itself.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { kindTitle, metricHelp } from "../core/metrics";
import type { App } from "./app_api";
import { flameKeys, keys } from "./keys";
import { clock } from "./timeline";

/** A modal dialog: the focus moves into it, stays in it, and returns to its previous place. */
export function Dialog({ title, close, small = false, children }: { title: string; close: () => void; small?: boolean; children: ComponentChildren }) {
  const element = useRef<HTMLDivElement>(null);
  // Before it is drawn, so that a key pressed at once goes to the dialog.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    element.current?.focus();
    return () => before?.focus();
  }, []);
  const keep = (event: KeyboardEvent) => {
    if (event.key !== "Tab") return;
    const stops = [...element.current!.querySelectorAll<HTMLElement>("button:not(:disabled), a[href], [tabindex='0']")];
    const at = stops.indexOf(document.activeElement as HTMLElement);
    event.preventDefault();
    stops[(at + (event.shiftKey ? (at < 0 ? 0 : -1) : 1) + stops.length) % stops.length]?.focus();
  };
  return (
    <div class="backdrop" onClick={(event) => event.target === event.currentTarget && close()}>
      <div class={`dialog ${small ? "small" : ""}`} role="dialog" aria-modal="true" aria-label={title} tabIndex={-1} ref={element} onKeyDown={keep}>
        <header>
          <h2>{title}</h2>
          <button class="icon" aria-label="Close" onClick={close}>
            ×
          </button>
        </header>
        <div class="dialog-body" tabIndex={0} role="group" aria-label={title}>
          {children}
        </div>
      </div>
    </div>
  );
}

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys and terms" close={close}>
      <h3>Terms</h3>
      <dl class="terms">
        <dt>self</dt>
        <dd>what a function used directly: it called malloc, new or the lock itself</dd>
        <dt>total</dt>
        <dd>it and all that it called; a function that occurs twice in one stack counts once</dd>
        <dt>±</dt>
        <dd>95 % interval of the estimate: only some events are sampled, and each sample has a weight, so that sums are right on average</dd>
        <dt>in use</dt>
        <dd>allocated and not freed, at the snapshot</dd>
      </dl>
      <h3>Keys</h3>
      <div class="keys">
        {keys.map((key) => (
          <div key={key.keys[0]}>
            <kbd>{key.keys[0]}</kbd> {key.text}
          </div>
        ))}
        {flameKeys.map(([key, text]) => (
          <div key={key}>
            <kbd>{key}</kbd> {text} (flame graph)
          </div>
        ))}
      </div>
      <h3>Searching</h3>
      <p>
        A part of a name, <code>=the whole name</code>, or <code>/an expression/</code>. The buttons beside the search keep it as a filter. Filters
        are part of the address: Back undoes one, and a copied address shows the same.
      </p>
    </Dialog>
  );
}

export function About({ app, close }: { app: App; close: () => void }) {
  const { report } = app.model;
  return (
    <Dialog title="About this profile" close={close}>
      {report.series.map((series, i) => {
        const newest = series.snapshots[series.snapshots.length - 1]!;
        return (
          <section key={i}>
            <h3>
              {kindTitle(series.kind)} of {series.program || newest.file}
              {series.pid === "" ? "" : ` (pid ${series.pid})`}
              {series.base ? ", base" : ""}
            </h3>
            <p class="muted">
              {series.snapshots.length} {series.snapshots.length === 1 ? "snapshot" : "snapshots"}, the newest at {clock(newest.ms)}: {newest.file}
            </p>
            <dl class="terms">
              {series.comments.map((comment, k) => {
                const colon = comment.indexOf(": ");
                return colon < 0 ? (
                  <dd key={k}>{comment}</dd>
                ) : (
                  <>
                    <dt>{comment.slice(0, colon)}</dt>
                    <dd>{comment.slice(colon + 2)}</dd>
                  </>
                );
              })}
            </dl>
            {series.losses.length > 0 && <p class="warn">Lost: {series.losses.join("; ")}</p>}
          </section>
        );
      })}
      <h3>Values</h3>
      <dl class="terms">
        {app.model.metrics.map((metric) => {
          const help = metricHelp(metric.kind, metric.name);
          return (
            <>
              <dt>
                {metric.name} ({metric.kind})
              </dt>
              <dd>
                {help.title}. {help.when}
              </dd>
            </>
          );
        })}
      </dl>
      <p class="muted">holdfast {report.version}</p>
    </Dialog>
  );
}
