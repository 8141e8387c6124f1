// The parts of the resident memory: the lines of the account stacked over time, and the lines at the moment shown, as `holdfast
// memory` prints them.
import { accountsOf, bytesOf, totalOf, type Account } from "../../core/account";
import { isProcessKey } from "../../core/select";
import { formatDuration, formatPercent, formatSigned, formatValue } from "../../core/units";
import type { App } from "../app_api";
import { clockText, timeTicks, valueTicks } from "../plot";
import { number, TableHead } from "../tables";

const width = 900;
const height = 190;
const [left, bottom, top] = [76, 20, 6];

function Bands({ account }: { account: Account }) {
  const { moments, course, lines } = account;
  const totals = moments.map((_, i) => course.reduce((sum, line) => sum + line[i]!, 0));
  const most = Math.max(1, ...totals);
  const [first, last] = [moments[0]!, moments[moments.length - 1]!];
  const x = (ms: number) => left + ((ms - first) / Math.max(1, last - first)) * (width - left - 10);
  const y = (value: number) => top + (1 - value / most) * (height - top - bottom);
  const below = moments.map(() => 0);
  const bands = lines.map((what, line) => {
    const lower = [...below];
    moments.forEach((_, i) => (below[i]! += course[line]![i]!));
    const edge = (values: number[], i: number) => `${x(moments[i]!).toFixed(1)} ${y(values[i]!).toFixed(1)}`;
    const there = moments.map((_, i) => edge(below, i));
    const back = moments.map((_, i) => edge(lower, i)).reverse();
    return (
      <path key={what} class={`band band-${line % 8}`} d={`M${[...there, ...back].join("L")}Z`}>
        <title>{what}</title>
      </path>
    );
  });
  return (
    <svg class="bands" viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Resident memory over time, by line">
      {bands}
      {valueTicks(most, "bytes").map((value) => (
        <g key={value}>
          <path class="grid" d={`M${left} ${y(value)}H${width - 10}`} />
          <text x={left - 8} y={y(value) + 4} text-anchor="end">
            {formatValue(value, "bytes")}
          </text>
        </g>
      ))}
      {timeTicks(first, last, (width - left) / 120).map((ms) => (
        <text key={ms} x={x(ms)} y={height - 4} text-anchor="middle">
          {clockText(ms, last - first < 3600e3)}
        </text>
      ))}
    </svg>
  );
}

function AccountOf({ account, alone }: { account: Account; alone: boolean }) {
  const { shown, before, lines } = account;
  const total = totalOf(shown.lines);
  return (
    <section class="account" data-testid="account">
      <p>
        {!alone && <b>{`${account.program}${account.pid === "" ? "" : ` (${account.pid})`}: `}</b>}
        <b>{formatValue(total, "bytes")}</b> resident at {clockText(shown.ms, true)}
        {before !== null && (
          <>
            , <b>{formatSigned(total - totalOf(before.lines), "bytes")}</b> in {formatDuration(shown.ms - before.ms)}
          </>
        )}
        .
      </p>
      {account.moments.length > 1 && <Bands account={account} />}
      <table class="data account-lines">
        <TableHead
          columns={[
            "Where", number("Resident"), ["Share", "num part"], number("±", "95 % half-width; blank if exact"), number(before === null ? "" : "Change"), "",
          ]}
        />
        <tbody>
          {lines.map((what, i) => {
            const bytes = bytesOf(shown.lines, what);
            const [, , error, more] = shown.lines.find(([name]) => name === what) ?? ["", 0, 0, ""];
            const earlier = before === null ? bytes : bytesOf(before.lines, what);
            if (bytes === 0 && earlier === 0) return null;
            return (
              <tr key={what}>
                <th scope="row">
                  <span class={`swatch band-${i % 8}`} /> {what}
                </th>
                <td class="num">{formatValue(bytes, "bytes")}</td>
                <td class="num part">{formatPercent(bytes, total)}</td>
                <td class="num muted">{error === 0 ? "" : formatValue(error, "bytes")}</td>
                <td class="num">{before === null || bytes === earlier ? "" : formatSigned(bytes - earlier, "bytes")}</td>
                <td class="muted">{more}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

const mostProcesses = 8;

export function MemoryView({ app }: { app: App }) {
  const { model, state } = app;
  const accounts = accountsOf(model.report, state.process, state).filter(({ process }) => model.hasProcess(state, process));
  const ignored = [...state.labels.filter(({ key }) => !isProcessKey(key)).map(({ key, text }) => `${key} ${text}`), ...(state.chips.length > 0 ? ["functions"] : [])];
  if (accounts.length === 0) {
    return (
      <div class="empty" role="status">
        <p>
          <b>No snapshot has an account of the process’s memory.</b>
        </p>
        <p>
          Heap profiles of processes that lived for a second and had up to 1 GiB resident have one. For a running process,{" "}
          <code>holdfast memory PID</code> makes one of any size.
        </p>
      </div>
    );
  }
  return (
    <div class="memory-view">
      {ignored.length > 0 && (
        <p class="muted" data-testid="unfiltered-memory">
          Not filtered by {ignored.join(", ")}: the account is of whole processes.
        </p>
      )}
      {accounts.slice(0, mostProcesses).map((account) => (
        <AccountOf key={account.process} account={account} alone={accounts.length === 1} />
      ))}
      {accounts.length > mostProcesses && <p class="muted">And {accounts.length - mostProcesses} smaller processes: choose one above.</p>}
      <p class="muted">
        Each resident byte is in one line. Live blocks, and the memory that the allocator keeps beyond them, are estimated from samples. The other
        lines are exact.
      </p>
    </div>
  );
}
