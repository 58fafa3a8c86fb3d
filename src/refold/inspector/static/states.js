// What stands where data is not there yet, is not there at all, or could not be had.
import { html, useErrorBoundary } from './vendor/htm-preact.js';

export const Loading = ({ what }) => html`<p class="state" role="status"><span class="spinner" aria-hidden="true"></span> Loading ${what} …</p>`;

export const Empty = ({ title, children }) => html`<div class="state"><p class="state-title">${title}</p><p>${children}</p></div>`;

export function Failed({ error, retry }) {
  return html`<div class="state" role="alert">
    <p class="state-title">✕ ${error.status === 404 ? 'Not found' : 'That did not work'}</p>
    <p>${error.message.charAt(0).toUpperCase() + error.message.slice(1)}</p>
    ${retry && html`<p><button onClick=${retry}>Try again</button></p>`}
  </div>`;
}

// One of the three, or the children with the data.
export function Loaded({ from, what, children }) {
  if (from.data) return children(from.data);
  return from.error ? html`<${Failed} error=${from.error} retry=${from.reload} />` : html`<${Loading} what=${what} />`;
}

export function Guard({ children }) {
  const [error, reset] = useErrorBoundary();
  if (error) return html`<${Failed} error=${{ message: `The page made a mistake: ${error.message}` }} retry=${reset} />`;
  return children;
}
