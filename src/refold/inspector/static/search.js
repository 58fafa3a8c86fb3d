// The field in which a view is searched or filtered; the key / leads to it. enter: what the key Enter does in it.
import { html } from './vendor/htm-preact.js';

export function Search({ label, hint, value, change, enter, children }) {
  return html`<label class="field grow"><span class="sr">${label}</span>
    <input type="search" data-search placeholder=${hint} value=${value} onInput=${(event) => change(event.target.value)}
      onKeyDown=${(event) => event.key === 'Enter' && !event.isComposing && enter?.()} />${children}</label>`;
}
