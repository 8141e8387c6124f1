// Actions for a frame: a menu under the right mouse button; the inspector has the same actions as buttons.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { addChip, nameOf, type App } from "./app_api";

export interface Action {
  text: string;
  key: string; // of the keyboard; "" = none
  act: () => void;
}

export function copyName(app: App, name: string): void {
  void navigator.clipboard?.writeText(name).then(() => app.say("Name copied"), () => app.say("The browser does not let a page copy here"));
}

export function actionsOf(app: App, func: number, zoom: (() => void) | null): Action[] {
  const name = nameOf(app, func);
  const all: (Action | null)[] = [
    zoom === null ? null : { text: "Zoom to it", key: "Enter", act: zoom },
    { text: "Focus", key: "f", act: () => addChip(app, "focus", `=${name}`) },
    { text: "Show from here", key: "r", act: () => addChip(app, "from", `=${name}`) },
    { text: "Hide", key: "x", act: () => addChip(app, "hide", `=${name}`) },
    { text: "Highlight", key: "h", act: () => app.set({ search: `=${name}` }) },
    { text: "Callers & callees", key: "5", act: () => app.set({ view: "sandwich", selected: func }) },
    { text: "Source", key: "7", act: () => app.set({ view: "source", selected: func }) },
    { text: "Copy name", key: "y", act: () => copyName(app, name) },
  ];
  return all.filter((action): action is Action => action !== null);
}

/** Keeps floating elements inside the window. */
function usePlace(x: number, y: number) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = element.current!.getBoundingClientRect();
    element.current!.style.left = `${Math.max(4, Math.min(x, window.innerWidth - box.width - 8))}px`;
    element.current!.style.top = `${y + box.height + 8 > window.innerHeight ? Math.max(4, y - box.height) : y}px`;
  }, [x, y]);
  return element;
}

export function ActionMenu({ app, func, zoom, x, y, close }: { app: App; func: number; zoom: (() => void) | null; x: number; y: number; close: () => void }) {
  const element = usePlace(x, y);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    (element.current!.querySelector("button") as HTMLElement).focus();
    const outside = (event: PointerEvent) => element.current?.contains(event.target as Node) !== true && close();
    window.addEventListener("pointerdown", outside, true);
    return () => {
      window.removeEventListener("pointerdown", outside, true);
      before?.focus();
    };
  }, []);
  const onKey = (event: KeyboardEvent) => {
    const items = [...element.current!.querySelectorAll("button")];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) items[(to + items.length) % items.length]!.focus();
    else if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key !== "Enter" && event.key !== " ") return;
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== " ") event.preventDefault();
  };
  return (
    <div class="menu" role="menu" aria-label={nameOf(app, func)} ref={element} onKeyDown={onKey}>
      {actionsOf(app, func, zoom).map(({ text, key, act }) => (
        <button
          key={text}
          role="menuitem"
          tabIndex={-1}
          onClick={() => {
            close();
            act();
          }}
        >
          {text} <kbd>{key}</kbd>
        </button>
      ))}
    </div>
  );
}
