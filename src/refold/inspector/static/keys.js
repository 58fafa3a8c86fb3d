// Keys of the page: the component that was shown last is asked first; a field that is being typed in keeps its keys.
import { html, useEffect, useRef } from './vendor/htm-preact.js';
import { Dialog } from './dialog.js';

const layers = [];

const isTyping = (target) => target.matches?.('input, textarea, select') ?? false;

function hear(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (document.querySelector('dialog[open]')) return; // a dialog has its own keys
  for (const layer of [...layers].reverse()) {
    const act = layer.current[event.key];
    if (act && act(event) !== false) {
      event.preventDefault();
      return;
    }
  }
}

addEventListener('keydown', hear);

// keys: {j: act, ...}; an act that returns false leaves the key to others.
export function useKeys(keys) {
  const layer = useRef(keys);
  layer.current = keys;
  useEffect(() => {
    layers.push(layer);
    return () => layers.splice(layers.indexOf(layer), 1);
  }, []);
}

export const focusSearch = () => {
  const field = document.querySelector('[data-search]');
  if (!field) return false;
  field.focus();
  field.select();
  return true;
};

const KEYS = [
  ['j  k', 'next row, row before'],
  ['Enter', 'open the row'],
  ['/', 'search or filter in this view; elsewhere: recall'],
  ['u', 'unfold the fold of this row or page'],
  ['p', 'pin or unpin the message of this row'],
  ['f', 'plan a fold of the message of this row, in the window'],
  ['Home  End', 'first row, last row'],
  ['s  t  r', 'sessions, traffic, recall'],
  ['Esc', 'close, leave a field'],
  ['?', 'this help'],
];

export function Help({ close }) {
  return html`<${Dialog} title="Keys" close=${close}>
    <dl class="keys">${KEYS.map(([key, does]) => html`<dt>${key.split('  ').map((k) => html`<kbd>${k}</kbd> `)}</dt><dd>${does}</dd>`)}</dl>
    <p class="buttons"><button autofocus onClick=${close}>Close</button></p>
  <//>`;
}
