// Bars: how full a window is, and a table of sizes; what is nearly full is hatched, so that no colour alone carries it.
import { html } from './vendor/htm-preact.js';

// From 0.85 on the default policy folds: docs/systems/refold.md.
const levelOf = (share) => (share >= 1 ? 'over' : share >= 0.85 ? 'high' : 'calm');

export function Bar({ share }) {
  const width = `${Math.min(100, Math.max(share > 0 ? 2 : 0, share * 100))}%`;
  return html`<span class=${`bar ${levelOf(share)}`} aria-hidden="true"><span style=${{ width }}></span></span>`;
}

// rows: [[name, size, words, title], ...]; the largest, or `whole`, fills the width.
export function Bars({ rows, whole, caption }) {
  const most = whole ?? Math.max(1, ...rows.map(([, size]) => size));
  return html`<table>${caption && html`<caption>${caption}</caption>`}
    ${rows.map(([name, size, words, title]) => html`<tr><th scope="row">${name}</th>
      <td class="fill"><span style=${{ width: `${(100 * size) / most}%` }}></span></td><td class="number" title=${title}>${words}</td></tr>`)}
  </table>`;
}
