// The name of a function as the page shows it.

/** A name that loses its beginning where there is no room: its end tells most. */
export function Name({ text }: { text: string }) {
  return (
    <span class="fn-name">
      <bdi dir="ltr">{text}</bdi>
    </span>
  );
}
