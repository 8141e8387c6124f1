// Everything about the frame or function chosen last, and the actions on it.
import { formatPercent, formatValue, grouped } from "../core/units";
import { shortPath } from "../core/classify";
import { isMemory } from "../core/metrics";
import type { SizeBin } from "../core/sizes";
import { nameOf, percentText, signedText, useHover, valueText, type App } from "./app_api";
import { actionsOf } from "./actions";
import { useFigures } from "./figures";
import { otherSide } from "./views/lock_data";
import { Bar, FunctionName } from "./tables";

export function Inspector({ app }: { app: App }) {
  const { model, state } = app;
  const pointed = useHover(app);
  const func = state.selected;
  if (pointed?.by === "key" && pointed.node > 0) return <Brief app={app} node={pointed.node} />;
  if (func >= 0 && func < model.report.names.length) return <Details app={app} func={func} />;
  return pointed !== null && pointed.by === "graph" && pointed.node > 0 ? <Brief app={app} node={pointed.node} /> : <Overview app={app} />;
}

/** The frame under the pointer, if none is chosen: only what needs no pass over the stacks. */
function Brief({ app, node }: { app: App; node: number }) {
  const { model, state } = app;
  const tree = model.flame(state);
  if (node >= tree.size) return null;
  const func = tree.func[node]!;
  const whole = model.whole(state);
  const row = model.functionRow(state, func);
  const object = model.object(func);
  const line = (title: string, self: number, total: number) => (
    <tr>
      <th scope="row">{title}</th>
      <td class="num">
        <b>{valueText(app, total)}</b> <span class="muted">{percentText(total, whole)}</span>
      </td>
      <td class="num">
        {valueText(app, self)} <span class="muted">self</span>
      </td>
    </tr>
  );
  return (
    <div class="inspector-body" data-testid="inspector-brief">
      <h2 class="fn-title" title={nameOf(app, func)}>{model.shortName(func)}</h2>
      <p class="muted place">{[shortPath(model.place(func)), object, model.origin(state, func)].filter((text) => text !== "").join(" · ")}</p>
      <table class="figures brief">
        <tbody>
          {line("this frame", tree.self[0]![node]!, tree.total[0]![node]!)}
          {row !== undefined && line("the function", row.self[0]!, row.total[0]!)}
        </tbody>
      </table>
      {app.hover.value?.by === "key" && <p class="muted"><kbd>Space</kbd> chooses it, <kbd>Enter</kbd> zooms, <kbd>f</kbd> focuses, <kbd>x</kbd> hides.</p>}
    </div>
  );
}

function Details({ app, func }: { app: App; func: number }) {
  const { model, state } = app;
  const row = model.functionRow(state, func);
  const tree = state.inverted ? model.tree(state) : model.flame(state);
  const node = state.inverted ? 0 : model.pinned(state);
  const whole = model.whole(state);
  const metric = model.metric(state);
  const name = nameOf(app, func);
  const places = model.placesOf(state, func);
  const figure = (title: string, value: number, plusMinus: number | null, part: number) => (
    <tr>
      <th scope="row">{title}</th>
      <td class="num">
        <b>{valueText(app, value)}</b>
        {plusMinus !== null && plusMinus > 0 && <span class="muted"> ± {valueText(app, plusMinus)}</span>}
      </td>
      <td class="num muted">{percentText(value, part)}</td>
    </tr>
  );
  const ofWaits = metric.kind === "block" || metric.kind === "mutex";
  const companionName = isMemory(metric.kind) ? metric.name.replace("_space", "_objects") : ofWaits ? "contentions" : "";
  const amountName = isMemory(metric.kind) ? metric.name.replace("_objects", "_space") : ofWaits ? "delay" : "";
  const counted = (nodes: number[], of = model.tree(state)) => ({
    count: companionName === "" ? null : model.companion(state, companionName, nodes, of),
    amount: amountName === "" ? null : model.companion(state, amountName, nodes, of),
  });
  const figures = useFigures(app, `${JSON.stringify(model.choice(state))} ${JSON.stringify(state.chips)} ${func} ${node} ${state.fold} ${state.inlined}`, () => ({
    ...counted(places),
    sizes: node > 0 ? model.sizes(state, [node], tree) : model.sizes(state, places),
    frame: node > 0 ? counted([node], tree) : null,
    frameTotal: node > 0 ? model.plusMinus(state, [node], false, tree) : null,
    frameSelf: node > 0 ? model.plusMinus(state, [node], true, tree) : null,
    total: model.plusMinus(state, places, false),
    self: model.plusMinus(state, model.allPlacesOf(state, func), true),
  }));
  const amountUnit = isMemory(metric.kind) ? "bytes" : "nanoseconds";
  const countRows = (of: { count: number | null; amount: number | null } | null) =>
    of !== null &&
    of.count !== null &&
    of.amount !== null && (
      <>
        <tr>
          <th scope="row">{isMemory(metric.kind) ? "objects" : "waits"}</th>
          <td class="num">{grouped(of.count)}</td>
          <td />
        </tr>
        <tr>
          <th scope="row">{isMemory(metric.kind) ? "mean size" : "mean wait"}</th>
          <td class="num">{of.count > 0 ? formatValue(of.amount / of.count, amountUnit) : "–"}</td>
          <td />
        </tr>
      </>
    );
  const other = otherSide(app, func);
  const origin = model.origin(state, func);
  const object = model.object(func);
  const path: number[] = [];
  if (node > 0) for (let i = tree.parent[node]!; i > 0; i = tree.parent[i]!) path.push(tree.func[i]!);
  return (
    <div class="inspector-body" data-testid="inspector">
      <h2 class="fn-title">{model.shortName(func)}</h2>
      {model.shortName(func) !== name && <p class="muted place" data-testid="whole-name">{name}</p>}
      <Actions app={app} func={func} />
      <dl>
        {model.place(func) !== "" && (
          <>
            <dt>file</dt>
            <dd title={model.place(func)}>{shortPath(model.place(func), 60)}</dd>
          </>
        )}
        <dt>object</dt>
        <dd>
          {object === "" ? "not known" : object}
          {object !== "" && origin !== "system" && (
            <button
              class="quiet"
              title="Colours by origin then treat it as your own code"
              onClick={() => app.set({ mine: state.mine.includes(object) ? state.mine.filter((o) => o !== object) : [...state.mine, object] })}
            >
              {state.mine.includes(object) ? "not mine" : origin === "user" ? "" : "count as mine"}
            </button>
          )}
        </dd>
        <dt>origin</dt>
        <dd>
          {origin}, package {model.packageName(func)}
        </dd>
      </dl>
      {node > 0 && (
        <table class="figures" data-testid="inspector-frame">
          <caption>This frame</caption>
          <tbody>
            {figure("total", tree.total[0]![node]!, figures?.frameTotal ?? null, whole)}
            {figure("self", tree.self[0]![node]!, figures?.frameSelf ?? null, whole)}
            {countRows(figures?.frame ?? null)}
          </tbody>
        </table>
      )}
      {row === undefined ? (
        <p class="muted">Not shown now: a filter or the metric leaves it out.</p>
      ) : (
        <table class="figures" data-testid="inspector-function">
          <caption>The function, in {grouped(places.length)} {places.length === 1 ? "place" : "places"}</caption>
          <tbody>
            {figure("total", row.total[0]!, figures?.total ?? null, whole)}
            {figure("self", row.self[0]!, figures?.self ?? null, whole)}
            {state.compare !== null && (
              <>
                <tr>
                  <th scope="row">base</th>
                  <td class="num">{valueText(app, row.total[1]!)}</td>
                  <td />
                </tr>
                <tr>
                  <th scope="row">change</th>
                  <td class="num">{signedText(app, row.total[0]! - row.total[1]!)}</td>
                  <td class="num muted">{formatPercent(row.total[0]! - row.total[1]!, row.total[1]!)}</td>
                </tr>
              </>
            )}
            {countRows(figures)}
          </tbody>
        </table>
      )}
      {figures !== null && figures.sizes.length > 0 && <Sizes app={app} bins={figures.sizes} />}
      {other !== null && other.rows.length > 0 && (
        <section aria-label="The other side">
          <h3>The other side</h3>
          <p class="muted">{other.title}</p>
          <ul class="plain">
            {other.rows.map((r) => (
              <li key={r.func}>
                <span class="num">{formatPercent(r.delay, other.total)}</span>{" "}
                <FunctionName app={app} func={r.func} onClick={() => app.set({ metric: `${other.kind}/delay`, selected: r.func, zoom: [] })} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {path.length > 0 && (
        <section aria-label="Called by">
          <h3>Called by</h3>
          <ol class="plain path">
            {path.map((fn, i) => (
              <li key={i}>
                <FunctionName app={app} func={fn} onClick={() => app.set({ pinned: path.slice(i).reverse(), selected: fn })} />
              </li>
            ))}
          </ol>
        </section>
      )}
    </div>
  );
}

/** What can be done with a function. */
export function Actions({ app, func }: { app: App; func: number }) {
  return (
    <div class="actions">
      {actionsOf(app, func, null).map(({ text, key, act }) => (
        <button key={text} title={`${text} (${key})`} onClick={act}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** On a phone, over the lower end of the graph: what was tapped, without scrolling to the inspector. */
export function Sheet({ app }: { app: App }) {
  const { model, state } = app;
  const tree = model.flame(state);
  const node = model.pinned(state);
  const row = model.functionRow(state, state.selected);
  if (row === undefined) return null;
  const whole = model.whole(state);
  const [total, self] = node > 0 ? [tree.total[0]![node]!, tree.self[0]![node]!] : [row.total[0]!, row.self[0]!];
  return (
    <section class="sheet" aria-label="Chosen frame" data-testid="sheet">
      <header>
        <b class="fn-text">{model.shortName(state.selected)}</b>
        <button class="icon" aria-label="Close" onClick={() => app.set({ selected: -1, pinned: [] })}>
          ×
        </button>
      </header>
      <p>
        total <b>{valueText(app, total)}</b> {percentText(total, whole)} · self <b>{valueText(app, self)}</b> {percentText(self, whole)}
      </p>
      <Actions app={app} func={state.selected} />
    </section>
  );
}

/** How large the blocks are, in rows of powers of two. */
function Sizes({ app, bins }: { app: App; bins: SizeBin[] }) {
  const whole = bins.reduce((sum, bin) => sum + bin.amount, 0);
  const largest = Math.max(...bins.map((bin) => Math.abs(bin.amount)));
  return (
    <table class="figures sizes" data-testid="inspector-sizes">
      <caption>Sizes of blocks</caption>
      <tbody>
        {bins.map(({ most, amount }) => (
          <tr key={most}>
            <th scope="row">up to {formatValue(most, "bytes")}</th>
            <td class="num">
              {valueText(app, amount)}
              <Bar part={largest > 0 ? Math.abs(amount) / largest : 0} />
            </td>
            <td class="num muted">{percentText(amount, whole)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Before anything is chosen: where to go from here, and what was lost. The table beside it shows what is largest. */
function Overview({ app }: { app: App }) {
  const { model, state } = app;
  const { kind } = model.metric(state);
  const losses = [...new Set(model.report.series.filter((s) => s.kind === kind && !s.base).flatMap((s) => s.losses))];
  const older = [...new Set(model.report.series.filter((s) => s.kind === kind && !s.base).flatMap((s) => s.olderBlocks ?? []))];
  const isEmpty = model.tree(state).weight[0] === 0;
  return (
    <div class="inspector-body">
      {isEmpty ? (
        <p class="muted">Nothing was sampled here.</p>
      ) : (
        <>
          <p class="hint">{state.view === "flame" ? "Point at a box to see its figures here. Click to keep them, double-click to zoom." : "Click a name to see its figures, callers and source here."}</p>
          <p class="muted hint">
            <kbd>/</kbd> search, <kbd>f</kbd> focus, <kbd>x</kbd> hide, <kbd>i</kbd> turn over, <kbd>?</kbd> all keys.
          </p>
        </>
      )}
      {older.map((text) => (
        <p key={text} class="muted">Not shown: {text}</p>
      ))}
      {losses.length > 0 && (
        <>
          <h2>Lost</h2>
          <ul class="plain">
            {losses.map((loss) => (
              <li key={loss}>{loss}</li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
