// Session: the meter over time, and the conversation under it.
import { html, useRef, useState } from '../vendor/htm-preact.js';
import { at, ROOT, useSession } from '../api.js';
import { Branches } from '../branches.js';
import { Conversation } from '../conversation.js';
import { count, money, percent, short, shortId, span } from '../format.js';
import { Meter } from '../meter.js';
import { useActions, usePage } from '../page.js';
import { PlanDialog } from '../plan.js';
import { go, keepParams, link } from '../router.js';
import { Loaded } from '../states.js';
import { plain } from '../text.js';

const CHIPS = 8; // folds named in the head; all of them are in the conversation

// Head of the three views of one session.
export function SessionHead({ who, session, here, id }) {
  const { budget, stats } = session; // null where more is in the view than any window holds
  const tab = (view, address, words) => html`<a href=${address} aria-current=${here === view ? 'page' : undefined}>${words}</a>`;
  const facts = [
    plain(session.model || 'no model named', 60),
    budget && `window ${count(budget.window)} (${plain(budget.window_source, 40)})`,
    `policy ${plain(session.policy, 40)}`,
    budget && `${percent(budget.ratio)} full`,
    stats?.tokens_saved && `${short(stats.tokens_saved)} tokens saved`,
    stats?.spent.dollars && money(stats.spent.dollars),
  ].filter(Boolean);
  return html`<div class="head-line">
    <h1 title=${plain(session.name)}>${plain(shortId(session.label || session.name), 80)}</h1>
    <p class="facts">${facts.join(' · ')}</p>
    <nav class="tabs" aria-label="Session">
      ${tab('session', link.session(who), 'conversation')}
      ${tab('window', link.window(who), 'window')}
      ${session.folds.slice(-CHIPS).map((fold) => html`<a key=${fold.name} href=${link.fold(who, fold.label)}
        aria-current=${id === fold.label || id === fold.name ? 'page' : undefined} class=${fold.standing ? 'chip' : 'chip undone'}
        title=${`${fold.handle} · ${count(fold.tokens_before)} → ${count(fold.tokens_after)} tokens`}>${fold.label}${fold.standing ? '' : ' undone'}</a>`)}
    </nav>
  </div>`;
}

// Numbers are a place; words are searched for in this session, folded or not.
function Find({ who, jump }) {
  const submit = (event) => {
    event.preventDefault();
    const text = event.target.elements.to.value.trim();
    const place = text.match(/^#?(\d+)\s*(?:[-–]\s*#?(\d+))?$/);
    if (place) jump(Number(place[1]), Number(place[2] ?? 0));
    else if (text) go(link.recall({ q: `${text} session:"${who.name.replaceAll('"', '')}"` }));
  };
  return html`<form onSubmit=${submit} class="field"><label for="find">find</label>
    <input id="find" name="to" data-search placeholder="words, #12, #12–#57" size="16" autocomplete="off" /></form>`;
}

function Talk({ who, session, route }) {
  const [mode, setMode] = useState(route.params.view === 'said' || route.params.m ? 'said' : 'sent');
  const [start, setStart] = useState(Number(route.params.m) || null);
  const [selected, setSelected] = useState(null);
  const [planned, setPlanned] = useState(null);
  const conversation = useRef(null);
  const { checkpoint } = useActions(who);
  const { canWrite } = usePage();
  const choose = (next) => {
    setMode(next);
    keepParams({ tenant: who.tenant, view: next === 'said' ? 'said' : '' });
  };
  const jump = (first, last) => {
    setSelected(last ? { first: Math.min(first, last), last: Math.max(first, last) } : null);
    conversation.current?.show(first);
  };
  const showAll = (number) => {
    choose('said');
    setStart(number);
  };
  const option = (value, words) => html`<button role="radio" aria-checked=${mode === value} onClick=${() => choose(value)}>${words}</button>`;
  return html`<${Meter} who=${who} session=${session} select=${jump} />
    <${Branches} who=${who} session=${session} />
    <div class="tools">
      <div class="switch" role="radiogroup" aria-label="What is shown">${option('sent', 'view as sent')}${option('said', 'everything said')}</div>
      <${Find} who=${who} jump=${jump} />
      ${selected && html`<button class="chip" title="Clear the selection" onClick=${() => setSelected(null)}>
        selected ${span(selected.first, selected.last)} ✕</button>
        <button onClick=${() => setPlanned(selected)}>plan fold of these</button>`}
      <span class="spring"></span>
      ${canWrite && html`<button onClick=${checkpoint}>checkpoint</button>`}
      <a class="button" href=${ROOT + at(who, '/export')} download>export</a>
    </div>
    <${Conversation} key=${mode} who=${who} session=${session} mode=${mode} selected=${selected} handle=${conversation}
      start=${start} showAll=${showAll} />
    ${planned && html`<${PlanDialog} who=${who} ...${planned} close=${() => setPlanned(null)} />`}`;
}

export function SessionView({ who, route }) {
  const from = useSession(who);
  return html`<${Loaded} from=${from} what="the session">${(session) => html`
    <${SessionHead} who=${who} session=${session} here="session" />
    <${Talk} who=${who} session=${session} route=${route} />`}<//>`;
}
