// The field in which a view is searched or filtered; the key / leads to it.
import { html } from './vendor/htm-preact.js';

export function Search({ label, hint, value, change, children }) {
  return html`<label class="field grow"><span class="sr">${label}</span>
    <input type="search" data-search placeholder=${hint} value=${value} onInput=${(event) => change(event.target.value)} />${children}</label>`;
}
