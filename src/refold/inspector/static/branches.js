// The branches of a session as a small tree: drawn to scale, this one first, each below the one that it leaves.
import { html, useState } from './vendor/htm-preact.js';
import { ago, count, date, plural, span } from './format.js';
import { useActions, usePage } from './page.js';
import { plain } from './text.js';

const INDENT = 16; // pixels for each step down the tree

function Lane({ branch, longest }) {
  const [left, width] = [branch.from, branch.said - branch.from].map((part) => `${(100 * part) / longest}%`);
  return html`<span class="lane" aria-hidden="true"><span class=${branch.here ? 'here' : ''} style=${{ left, width }}></span></span>`;
}

function Item({ branch, longest, go }) {
  const own = branch.said - branch.from;
  const words = branch.here ? '● here' : `leaves at #${branch.from} · ${plural(own, 'message')} · ${ago(branch.at)}`;
  return html`<li aria-current=${branch.here ? 'true' : undefined}>
    <${Lane} branch=${branch} longest=${longest} />
    <b style=${{ paddingLeft: (branch.depth - 1) * INDENT }}>${branch.depth > 0 ? '└ ' : ''}${span(branch.from + 1, Math.max(branch.said, branch.from + 1))}</b>
    <span class="b-words" title=${branch.here ? undefined : date(branch.at)}>${words} <span class="quiet-text">${plain(branch.line, 120)}</span></span>
    ${go && !branch.here && html`<button aria-label=${`go to the branch that ends at #${branch.said}`} onClick=${go}>go there</button>`}
  </li>`;
}

export function Branches({ who, session }) {
  const [open, setOpen] = useState(false);
  const { rewind } = useActions(who);
  const { canWrite } = usePage();
  const { branches } = session;
  if (branches.length < 2) return null;
  const longest = Math.max(1, ...branches.map((branch) => branch.said));
  const goTo = (branch) => canWrite && (() => rewind(branch.tip, `the branch that ends at #${branch.said}`));
  return html`<details class="branches" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>├ ${count(branches.length)} branches</summary>
    ${open && html`<ul class="tree" aria-label="Branches">${branches.map((branch) => html`
      <${Item} key=${branch.tip} branch=${branch} longest=${longest} go=${goTo(branch)} />`)}</ul>`}
  </details>`;
}
