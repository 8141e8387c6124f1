// The flame graph as a view: it shows the selection, and stores picked frames in the address.
import { pathOf } from "../../core/tree";
import type { App } from "../app_api";
import { FlameGraph, Nothing } from "../flame";
import { Legend } from "../tools";

export function FlameView({ app }: { app: App }) {
  const { model, state } = app;
  const tree = model.flame(state);
  const zoom = model.zoomed(state);
  const open = (node: number) => {
    if (node === 0) app.set({ zoom: [], selected: -1, pinned: [] });
    else app.set({ zoom: pathOf(tree, node), selected: tree.func[node]!, pinned: [] });
  };
  const pick = (node: number) => {
    if (node === 0) open(0);
    else app.set({ selected: tree.func[node]!, pinned: pathOf(tree, node) });
  };
  return (
    <section class="view flame-view" aria-label="Flame graph">
      {tree.weight[0]! > 0 ? (
        <FlameGraph
          app={app}
          tree={tree}
          zoom={zoom}
          chosen={model.pinned(state)}
          whole={model.whole(state)}
          flame={state.flame}
          label="Flame graph"
          runs={(apart) => model.boxes(state, apart)}
          onOpen={open}
          onPick={pick}
        />
      ) : (
        <Nothing app={app} />
      )}
      <Legend app={app} />
    </section>
  );
}
