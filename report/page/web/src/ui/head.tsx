// The first line of the page: program, metric, process, and the page's own controls.
import type { RefObject } from "preact";
import { kindTitle, metricHelp } from "../core/metrics";
import { metricKey } from "../core/metrics";
import { valueText, type App } from "./app_api";
import type { Page } from "./keys";
import { SearchBox } from "./tools";

export function Head({ app, title, page, search }: { app: App; title: string; page: Page; search: RefObject<HTMLInputElement> }) {
  const { model, state, set } = app;
  const metric = model.metric(state);
  // The largest first, each with its value of the metric.
  const processes = new Map<string, { text: string; total: number }>();
  for (const series of model.report.series) {
    if (series.base) continue;
    const newest = series.snapshots[series.snapshots.length - 1]!;
    const known = processes.get(series.process) ?? {
      text: `${series.program || newest.file}${series.pid === "" ? "" : ` (${series.pid})`}`,
      total: 0,
    };
    const m = series.kind === metric.kind ? series.metrics.findIndex(([name]) => name === metric.name) : -1;
    if (m >= 0) known.total += newest.totals[m]!;
    processes.set(series.process, known);
  }
  const bySize = [...processes].sort((a, b) => b[1].total - a[1].total);
  const metrics = model.metricsFor(app.compared);
  const kinds = [...new Set(metrics.map((m) => m.kind))];
  return (
    <header class="head">
      <div class="brand" title="Made by holdfast html">
        <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
          <rect x="1" y="2" width="18" height="4.4" rx="1" />
          <rect x="1" y="7.8" width="12" height="4.4" rx="1" />
          <rect x="1" y="13.6" width="7" height="4.4" rx="1" />
        </svg>
        <h1>{title}</h1>
      </div>
      <label class="metric-menu">
        <span class="visually-hidden">Metric</span>
        <select
          value={model.metricOf(state)}
          onChange={(event) => set({ metric: event.currentTarget.value })}
          title={metricHelp(metric.kind, metric.name).when}
          data-testid="metric"
        >
          {kinds.map((kind) => (
            <optgroup label={kindTitle(kind)} key={kind}>
              {metrics
                .filter((m) => m.kind === kind)
                .map((m) => (
                  <option key={m.name} value={metricKey(m)} title={metricHelp(m.kind, m.name).when}>
                    {metricHelp(m.kind, m.name).title}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      {processes.size > 1 && (
        <label>
          <span class="visually-hidden">Process</span>
          <select value={state.process} onChange={(event) => set({ process: event.currentTarget.value })} data-testid="process">
            <option value="">all {processes.size} processes</option>
            {bySize.map(([process, { text, total }]) => (
              <option key={process} value={process}>
                {text} · {valueText(app, total)}
              </option>
            ))}
          </select>
        </label>
      )}
      <SearchBox app={app} search={search} />
      <nav aria-label="Page">
        <button class="icon" onClick={page.download} title="Download the pprof (d)" aria-label="Download the pprof">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleAbout} title="About this profile (a)" aria-label="About this profile">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6.25" />
            <path d="M8 7.2v4M8 4.6v.2" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleTheme} title="Dark or light (t)" aria-label="Dark or light">
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <path d="M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1z" />
          </svg>
        </button>
        <button class="icon" onClick={page.toggleHelp} title="Keys and terms (?)" aria-label="Keys and terms">
          <b>?</b>
        </button>
      </nav>
    </header>
  );
}
