// A list of any length as a window of rows: fixed heights, so that a place is arithmetic and the page stays small.
import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/htm-preact.js';
import { useKeys } from './keys.js';

const MAX_PIXELS = 4_000_000; // browsers draw elements up to about 16 to 33 million pixels; longer lists are scaled
const OVERSCAN = 4;
const PHONE = matchMedia('(max-width: 640px)');

function useRowHeight(wide, narrow) {
  const [phone, setPhone] = useState(PHONE.matches);
  useEffect(() => {
    const change = () => setPhone(PHONE.matches);
    PHONE.addEventListener('change', change);
    return () => PHONE.removeEventListener('change', change);
  }, []);
  return phone ? narrow : wide;
}

// `tall` names the rows that are higher: [[index, rows], ...], sorted.
export function makeLayout(count, tall, height) {
  const extra = [0];
  for (const [, rows] of tall) extra.push(extra.at(-1) + (rows - 1) * height);
  const before = (index) => {
    let low = 0;
    let high = tall.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tall[middle][0] < index) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const top = (index) => index * height + extra[before(index)];
  const find = (pixels) => {
    let low = 0;
    let high = Math.max(0, count - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (top(middle) <= pixels) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return { top, find, total: top(count) };
}

function useBox(element) {
  const [box, setBox] = useState({ scroll: 0, height: 0 });
  useLayoutEffect(() => {
    const node = element.current;
    const read = () => setBox({ scroll: node.scrollTop, height: node.clientHeight });
    const watch = new ResizeObserver(read);
    watch.observe(node);
    node.addEventListener('scroll', read, { passive: true });
    read();
    return () => {
      watch.disconnect();
      node.removeEventListener('scroll', read);
    };
  }, []);
  return box;
}

// render(index, isActive) -> cells; open(index) on Enter or a click; handle.current gets {show(index), active}.
export function Rows({ label, count, tall = [], wide = 36, narrow = 60, render, open, handle, onRange, keys = {}, start = 0 }) {
  const element = useRef(null);
  const [chosen, setActive] = useState(start);
  const active = Math.min(chosen, Math.max(0, count - 1)); // a filter may leave fewer rows
  const wantsFocus = useRef(false);
  const row = useRowHeight(wide, narrow);
  const { scroll, height } = useBox(element);
  const layout = makeLayout(count, tall, row);
  const inner = Math.min(layout.total, MAX_PIXELS);
  const factor = inner > height && layout.total > inner ? (layout.total - height) / (inner - height) : 1;
  const virtual = scroll * factor;
  const first = Math.max(0, layout.find(virtual) - OVERSCAN);
  const last = Math.min(count - 1, layout.find(virtual + height) + OVERSCAN);

  const bringIn = (index, center) => {
    const [top, bottom] = [layout.top(index), layout.top(index + 1)];
    let wanted = virtual;
    if (center) wanted = top - (height - (bottom - top)) / 2;
    else if (top < virtual) wanted = top;
    else if (bottom > virtual + height) wanted = bottom - height;
    if (wanted !== virtual) element.current.scrollTop = wanted / factor;
  };
  const move = (to, { center = false, focus = true } = {}) => {
    const index = Math.min(Math.max(0, to), count - 1);
    if (index < 0) return;
    setActive(index);
    wantsFocus.current = focus;
    bringIn(index, center);
  };
  if (handle) handle.current = { show: (index) => move(index, { center: true }), active, move };

  const page = Math.max(1, Math.floor(height / row) - 1);
  const moves = {
    j: () => move(active + 1), k: () => move(active - 1), ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1),
    PageDown: () => move(active + page), PageUp: () => move(active - page), Home: () => move(0), End: () => move(count - 1),
    Enter: (event) => (isOwnControl(event.target) ? false : open?.(active)),
  };
  for (const [key, act] of Object.entries(keys)) moves[key] = () => act(active);
  useKeys(count ? moves : {});

  useEffect(() => onRange?.(first, last), [first, last, count]);
  useEffect(() => start && height && bringIn(start, true), [height > 0]);
  const atEnd = useRef(false);
  useLayoutEffect(() => {
    if (atEnd.current) element.current.scrollTop = inner; // what comes is followed while the end is on the screen
  }, [count]);
  useEffect(() => {
    atEnd.current = scroll > 0 && scroll + height >= inner - row;
  });
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    const node = element.current.querySelector('[data-active]');
    if (node) {
      wantsFocus.current = false;
      node.focus({ preventScroll: true });
    }
  });

  const rows = [];
  for (let index = first; index <= last; index += 1) {
    const isActive = index === active;
    const style = { top: layout.top(index) - virtual + scroll, height: layout.top(index + 1) - layout.top(index) };
    const act = (event) => {
      setActive(index);
      if (!isOwnControl(event.target)) open?.(index);
    };
    rows.push(html`<div role="row" key=${index} aria-rowindex=${index + 1} data-active=${isActive || undefined}
      tabindex=${isActive ? 0 : -1} class="row" style=${style} onClick=${act}>${render(index, isActive)}</div>`);
  }
  return html`<div class="rows" ref=${element}><div role="grid" aria-label=${label} aria-rowcount=${count}
    style=${{ height: inner }}>${rows}</div></div>`;
}

const isOwnControl = (target) => Boolean(target.closest?.('a, button, input, select, textarea, summary'));
