// The line between the view and the panel beside it: dragged, or moved with the arrow keys. Its place is kept for the next report.
import { useEffect, useRef, useState } from "preact/hooks";

const key = "holdfast-side";
const [narrowest, widest, step] = [240, 900, 24];
const fitting = (width: number) => Math.max(narrowest, Math.min(widest, window.innerWidth - 420, width));

function kept(): number {
  try {
    return Number(localStorage.getItem(key)) || 0;
  } catch {
    return 0;
  }
}

export function Splitter() {
  const line = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(kept);
  const now = () => (line.current!.nextElementSibling as HTMLElement).getBoundingClientRect().width;
  useEffect(() => {
    const stage = line.current!.parentElement!;
    if (width > 0) stage.style.setProperty("--side", `${fitting(width)}px`);
    else stage.style.removeProperty("--side");
  });
  const to = (next: number) => {
    const fitted = fitting(next);
    setWidth(fitted);
    try {
      localStorage.setItem(key, String(fitted));
    } catch {
      // Not kept then.
    }
  };
  return (
    <div
      class="splitter"
      ref={line}
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the table"
      aria-valuenow={Math.round(width)}
      aria-valuemin={narrowest}
      aria-valuemax={widest}
      tabIndex={0}
      title="Drag to make the table wider; a double click restores it"
      data-testid="splitter"
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => event.currentTarget.hasPointerCapture(event.pointerId) && to(event.currentTarget.parentElement!.getBoundingClientRect().right - event.clientX)}
      onDblClick={() => (setWidth(0), localStorage.removeItem(key))}
      onKeyDown={(event) => {
        const by = event.key === "ArrowLeft" ? step : event.key === "ArrowRight" ? -step : 0;
        if (by === 0) return;
        event.preventDefault();
        event.stopPropagation();
        to(now() + by);
      }}
    />
  );
}
