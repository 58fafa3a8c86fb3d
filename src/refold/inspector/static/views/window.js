// Window: what fills it now, the biggest messages, and what a fold would do.
import { html, useState } from '../vendor/htm-preact.js';
import { at, isAbout, useData, useSession } from '../api.js';
import { Bars } from '../bar.js';
import { CompareDialog } from '../compare.js';
import { cell, messageCells } from '../conversation.js';
import { count, percent, plural, short } from '../format.js';
import { MessageDrawer } from '../message.js';
import { useActions, usePage } from '../page.js';
import { PlanBody, PlanDialog } from '../plan.js';
import { go, link } from '../router.js';
import { Rows } from '../rows.js';
import { Loaded } from '../states.js';
import { plain } from '../text.js';
import { SessionHead } from './session.js';

const KINDS = {
  system: 'system messages', summary: 'summaries', user: 'user', assistant: 'assistant', tool_calls: 'tool calls',
  tool_results: 'tool results', thinking: 'thinking', images: 'images', documents: 'documents', other: 'other',
};
const partWords = { unlisted: 'not listed', free: 'free' };
const partClass = (part) => (part.fold ? 'fold' : part.part);

function Parts({ window, who }) {
  const { used, room, ratio, level } = window.budget;
  const facts = [`${count(used)} of ${count(room)} tokens`, percent(ratio), level === 'none' ? '' : level];
  const parts = window.parts.filter((part) => part.tokens > 0);
  const sum = parts.reduce((total, part) => total + part.tokens, 0);
  const words = (part) => partWords[part.part] ?? part.part;
  const sizes = parts.map((part) => `${words(part)} ${count(part.tokens)} tokens`);
  const piece = (part, place) => html`<span class=${`p-${partClass(part)}`} style=${{ flexGrow: part.tokens / sum }} title=${sizes[place]}></span>`;
  const item = (part) => html`<li><i class=${`p-${partClass(part)}`} aria-hidden="true"></i>
    ${part.fold ? html`<a href=${link.fold(who, part.part)}>${part.part}</a>` : words(part)}
    ${' '}<b>${short(part.tokens)}</b> <span class="quiet-text">${percent(part.tokens / sum)}</span></li>`;
  return html`<section class="panel" aria-labelledby="fills">
    <h2 id="fills">What fills the window <span class="quiet-text">${facts.filter(Boolean).join(' · ')}</span></h2>
    <div class="stack" role="img" aria-label=${sizes.join(', ')}>${parts.map(piece)}</div>
    <ul class="legend">${parts.map(item)}</ul>
  </section>`;
}

function Kinds({ kinds }) {
  const sizes = Object.entries(kinds).filter(([, tokens]) => tokens > 0).sort((a, b) => b[1] - a[1]);
  const rows = sizes.map(([kind, tokens]) => [KINDS[kind] ?? plain(kind, 30), tokens, short(tokens), count(tokens)]);
  return html`<section class="panel kinds" aria-labelledby="kinds"><h2 id="kinds">History by kind</h2><${Bars} rows=${rows} /></section>`;
}

function Plan({ who, session, plan, error }) {
  const [compared, setCompared] = useState(false);
  const { canWrite } = usePage();
  const { compact } = useActions(who);
  let body = html`<p class="quiet-text" role="status">Planning …</p>`;
  if (error) body = html`<p role="alert">✕ ${error.message}</p>`;
  else if (plan) body = html`<${PlanBody} plan=${plan} />`;
  return html`<section class="panel plan" aria-labelledby="plan"><h2 id="plan">If folded now</h2>${body}
    <p class="buttons start">${canWrite && plan?.would_compact && html`<button class="primary" onClick=${() => compact(plan)}>fold now</button>`}
      <button onClick=${() => setCompared(true)}>compare with another policy</button></p>
    ${compared && html`<${CompareDialog} who=${who} session=${session} close=${() => setCompared(false)} />`}
  </section>`;
}

function Biggest({ who, rows, said }) {
  const [opened, setOpened] = useState(null);
  const [planned, setPlanned] = useState(null);
  const render = (index, isActive) => {
    const row = rows[index];
    const facts = [row.age == null ? '' : plural(row.age, 'turn') + ' old', row.cached == null ? '' : row.cached ? 'cached' : 'not cached'];
    const cells = messageCells(row.number, row, facts.filter(Boolean).join(' · '));
    if (row.number == null) return cells;
    const plan = html`<button tabindex=${isActive ? 0 : -1} onClick=${() => setPlanned(row.number)}>plan fold of this</button>`;
    return [...cells, cell('act', plan)];
  };
  const open = (index) => {
    const row = rows[index];
    if (row.number == null) go(link.fold(who, row.handle.split('/')[0]));
    else setOpened(row.number);
  };
  return html`<section class="biggest" aria-labelledby="biggest"><h2 id="biggest">Biggest messages</h2>
    <${Rows} label="Biggest messages" count=${rows.length} render=${render} open=${open}
      keys=${{ f: (index) => (rows[index].number == null ? false : setPlanned(rows[index].number)) }} />
    ${planned != null && html`<${PlanDialog} who=${who} first=${planned} last=${planned} close=${() => setPlanned(null)} />`}
    ${opened != null && html`<${MessageDrawer} who=${who} number=${opened} said=${said} show=${setOpened} close=${() => setOpened(null)} />`}
  </section>`;
}

export function WindowView({ who }) {
  const session = useSession(who);
  const now = useData(at(who, '/window'), isAbout(who));
  const planned = useData(at(who, '/window', { plan: 1 }), isAbout(who));
  return html`<${Loaded} from=${session} what="the session">${(about) => html`
    <${SessionHead} who=${who} session=${about} here="window" />
    <${Loaded} from=${now} what="the window">${(window) => html`<div class="window-page">
      <${Parts} window=${window} who=${who} />
      <div class="side-by-side"><${Kinds} kinds=${window.kinds} />
        <${Plan} who=${who} session=${about} plan=${planned.data?.plan} error=${planned.error} /></div>
      <${Biggest} who=${who} rows=${window.biggest} said=${about.said} />
    </div>`}<//>`}<//>`;
}
