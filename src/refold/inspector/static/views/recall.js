// Recall: everything ever said, also what was folded; a hit can be brought back.
import { html, useEffect, useState } from '../vendor/htm-preact.js';
import { useData } from '../api.js';
import { ago, count, date, milliseconds, plural, shortId } from '../format.js';
import { focusSearch } from '../keys.js';
import { MessageDrawer } from '../message.js';
import { useActions, usePage } from '../page.js';
import { keepParams, link } from '../router.js';
import { Rows } from '../rows.js';
import { Search } from '../search.js';
import { Empty, Loaded } from '../states.js';
import { plain } from '../text.js';

const TYPING_MS = 250;
const LIMIT = 100;

// The snippet in pieces; matches are [start, end] in code points, as the server counts.
function Snippet({ text, matches }) {
  const points = [...text];
  const pieces = [];
  let from = 0;
  for (const [start, end] of matches) {
    pieces.push(plain(points.slice(from, start).join('')), html`<mark>${plain(points.slice(start, end).join(''))}</mark>`);
    from = end;
  }
  return [...pieces, plain(points.slice(from).join(''))];
}

function Hit({ hit, open, canWrite, isActive }) {
  const { pin } = useActions({ name: hit.session, tenant: hit.tenant });
  const cell = (name, content, title) => html`<span role="gridcell" class=${`h-${name}`} title=${title}>${content}</span>`;
  const speaker = hit.tool ? `${hit.role} ${hit.tool}` : hit.role;
  const where = html`<b>${plain(shortId(hit.session), 60)} ${plain(hit.handle, 16)}</b> · ${plain(speaker, 40)} · ${ago(hit.at)}`;
  const state = !hit.on_branch ? '├ on another branch' : hit.folded ? `▼ folded in ${hit.fold ?? 'a fold'}` : '✓ in the window';
  return [
    cell('where', where, `${plain(hit.session)} · ${date(hit.at)}`),
    cell('text', html`<${Snippet} text=${hit.snippet} matches=${hit.matches} />`),
    cell(hit.folded ? 'state' : 'state seen', state),
    html`<span role="gridcell" class="h-act"><button tabindex=${isActive ? 0 : -1} onClick=${open}>open</button>${canWrite && hit.folded && hit.on_branch
      && html`<button tabindex=${isActive ? 0 : -1} class=${isActive ? 'primary' : ''} onClick=${() => pin(hit.handle, true)}>bring back</button>`}</span>`,
  ];
}

function Hits({ found }) {
  const [opened, setOpened] = useState(null);
  const { canWrite } = usePage();
  const { hits } = found;
  if (!hits.length) return html`<${Empty} title="Nothing was found">Try fewer words, or another form of them.<//>`;
  const open = (index) => setOpened({ hit: hits[index], number: hits[index].on_branch ? hits[index].number : hits[index].name });
  const render = (index, isActive) => html`<${Hit} hit=${hits[index]} open=${() => open(index)} canWrite=${canWrite} isActive=${isActive} />`;
  const { hit, number } = opened ?? {};
  const who = hit && { name: hit.session, tenant: hit.tenant };
  return html`<${Rows} label="Hits" count=${hits.length} wide=${64} narrow=${112} render=${render} open=${open} />
    ${hit && html`<${MessageDrawer} who=${who} number=${number} said=${Infinity}
      find=${hit.matches.map(([from, to]) => [...hit.snippet].slice(from, to).join(''))}
      show=${(next) => setOpened({ hit, number: next })} close=${() => setOpened(null)}
      more=${html`<a class="button" href=${link.session(who, { m: hit.number })}>in the conversation</a>`} />`}`;
}

function describe({ count: all, hits, seconds }) {
  const shown = all > hits.length ? `, ${count(hits.length)} shown` : '';
  return `${plural(all, 'hit')}${shown} · ${milliseconds(seconds * 1000)}`;
}

export function RecallView({ route }) {
  const [query, setQuery] = useState(route.params.q ?? '');
  const [asked, setAsked] = useState(query);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(query.trim()), TYPING_MS);
    keepParams({ q: query });
    return () => clearTimeout(timer);
  }, [query]);
  useEffect(() => {
    if (!query) focusSearch();
  }, []);
  const found = useData(asked ? `recall?${new URLSearchParams({ q: asked, limit: LIMIT })}` : null, (event) => event.kind === 'session');
  return html`<h1 class="sr">Recall</h1>
    <div class="tools">
      <${Search} label="Search everything that was said" value=${query} change=${setQuery}
        hint='words, "words in a row", session:NAME tool:Bash role:user folded:yes' />
      ${found.data && html`<span class="quiet-text" role="status">${describe(found.data)}</span>`}
    </div>
    ${asked ? html`<${Loaded} from=${found} what="hits">${(data) => html`<${Hits} key=${asked} found=${data} />`}<//>`
    : html`<${Empty} title="What are you looking for?">Everything that was ever said in this store can be found here, word for word,
      also what a fold took out of the window. “Bring back” pins the original, so that the model sees it again.<//>`}`;
}
