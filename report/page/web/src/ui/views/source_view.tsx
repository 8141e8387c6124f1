// The lines of one function with their values, beside the source if the report contains it.
import { linesOf, type LineRow } from "../../core/lines";
import { nameOf, valueText, type App } from "../app_api";
import { FunctionPicker, functionShown } from "../sandwich";
import { Bar, number, TableHead } from "../tables";

export function SourceView({ app }: { app: App }) {
  const { model, state } = app;
  const func = functionShown(app);
  if (func < 0) {
    return (
      <div class="empty" role="status">
        <b>Nothing to show.</b>
      </div>
    );
  }
  const { report } = model;
  const file = report.files[func]!;
  const rows = linesOf(report, func, model.values(state).columns[0]!, model.tree(state).viewOf);
  const byLine = new Map<number, LineRow>(rows.filter((row) => row.line > 0).map((row) => [row.line, row]));
  const source = report.sources.get(file);
  const largest = Math.max(1, ...rows.map((row) => Math.abs(row.total)));
  const wanted: number[] = [];
  for (const line of byLine.keys()) {
    for (let near = line - 6; near <= line + 6; ++near) if (near === line || source?.has(near) === true) wanted.push(near);
  }
  const lines = [...new Set(wanted)].sort((a, b) => a - b);
  return (
    <section class="view scroll" aria-label="Source lines" tabIndex={0}>
      <div class="view-options">
        <FunctionPicker app={app} func={func} />
      </div>
      <h2 class="fn-title" title={nameOf(app, func)}>{model.shortName(func)}</h2>
      {byLine.size === 0 ? (
        <div class="empty">
          <p>
            <b>No line numbers for this function.</b>
          </p>
          <p>
            The program has no debug information, or the exporter did not find it. Install the debug symbols, then{" "}
            <code>holdfast symbolize</code> the profile and make the report again.
          </p>
        </div>
      ) : (
        <>
          <p class="muted">
            {file}
            {source === undefined ? " (the report does not contain the source: the file was not found, or was left out)" : ""}
          </p>
          <table class="data code">
            <TableHead columns={[number("Self"), number("Total"), number("Line"), "Source"]} />
            <tbody>
              {lines.map((line, i) => {
                const row = byLine.get(line);
                return (
                  <tr key={line} class={`${row === undefined ? "" : "hot"} ${i > 0 && lines[i - 1] !== line - 1 ? "gap" : ""}`} data-line={line}>
                    <td class="num">{row === undefined || row.self === 0 ? "" : valueText(app, row.self)}</td>
                    <td class="num">
                      {row === undefined ? "" : valueText(app, row.total)}
                      {row !== undefined && <Bar part={Math.abs(row.total) / largest} />}
                    </td>
                    <td class="num muted">{line}</td>
                    <td>
                      <pre>{source?.get(line) ?? ""}</pre>
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
}
