// Sessions: what is there, what is busy, how full each window is, and what folding saved.
import { html, useEffect, useRef, useState } from '../vendor/htm-preact.js';
import { getJson } from '../api.js';
import { Bar } from '../bar.js';
import { Costs } from '../costs.js';
import { ago, count, date, money, percent, short, shortId } from '../format.js';
import { useLive } from '../live.js';
import { go, keepParams, link } from '../router.js';
import { Rows } from '../rows.js';
import { Search } from '../search.js';
import { Empty, Failed, Loading } from '../states.js';
import { plain } from '../text.js';

const PAGE = 100;
const TYPING_MS = 200;

const key = (session) => `${session.tenant}\n${session.name}`;

// {rows, total, matching, more, error}: pages are read one after the other as they are scrolled to.
function useSessions(filter) {
  const [state, setState] = useState({ rows: null });
  const next = useRef(null);
  const busy = useRef(false);
  const read = async (after, limit) => {
    const query = new URLSearchParams({ limit, ...(filter && { q: filter }), ...(after && { after }) });
    busy.current = true;
    try {
      const page = await getJson(`sessions?${query}`);
      setState((old) => {
        const fresh = new Set(page.sessions.map(key));
        const others = (old.rows ?? []).filter((row) => !fresh.has(key(row)));
        const keepsOthers = after || (old.filter === filter && page.next != null);
        if (after || !keepsOthers || !others.length) next.current = page.next;
        const rows = after ? [...others, ...page.sessions] : [...page.sessions, ...(keepsOthers ? others : [])];
        return { rows, filter, total: page.total, matching: page.matching, error: null };
      });
    } catch (error) {
      setState((old) => ({ ...old, error }));
    } finally {
      busy.current = false;
    }
  };
  const first = () => read(null, PAGE);
  useEffect(() => {
    const timer = setTimeout(first, state.rows ? TYPING_MS : 0);
    return () => clearTimeout(timer);
  }, [filter]);
  useLive((event) => (event.kind === 'session' || event.kind === 'reset') && first());
  const more = () => next.current && !busy.current && read(next.current, PAGE);
  return { ...state, more, retry: first };
}

const HEADS = ['name', 'client', 'model', 'messages', 'window', 'folds', 'saved', 'cost', 'last'];

function cells(session) {
  const cell = (name, content, title) => html`<span role="gridcell" class=${`c-${name}`} title=${title}>${content}</span>`;
  const name = html`<a href=${link.session(session)} tabindex="-1">${session.parent ? '└ ' : ''}${plain(shortId(session.label || session.name), 120)}</a>`;
  const fill = session.share == null ? '–' : html`<${Bar} share=${session.share} /> ${percent(session.share)}`;
  const isNow = Date.now() / 1000 - session.changed < 10;
  return [
    cell('name', name, plain(session.name)),
    cell('client', plain(session.client, 60)),
    cell('model', plain(session.model, 60)),
    cell('messages', count(session.said)),
    cell('window', fill, `${count(session.used)} of ${count(session.window)} tokens`),
    cell('folds', count(session.folds)),
    cell('saved', session.saved ? short(session.saved) : '–', `${count(session.saved)} tokens`),
    cell('cost', session.spent.calls ? money(session.spent.dollars) : '–'),
    cell('last', isNow ? '● now' : ago(session.changed), date(session.changed)),
  ];
}

function List({ state, open }) {
  const rows = state.rows;
  const near = (first, last) => last >= rows.length - 20 && state.more();
  return html`<div class="table sessions-table">
    <div class="head" aria-hidden="true">${HEADS.map((name) => html`<span class=${`c-${name}`}>${name}</span>`)}</div>
    <${Rows} label="Sessions" count=${rows.length} wide=${38} narrow=${74} render=${(index) => cells(rows[index])}
      open=${(index) => open(rows[index])} onRange=${near} />
  </div>`;
}

export function SessionsView({ route }) {
  const [filter, setFilter] = useState(route.params.q ?? '');
  const [entered, setEntered] = useState(null);
  const state = useSessions(filter);
  const type = (text) => {
    setFilter(text);
    keepParams({ q: text });
  };
  const isNone = state.filter === filter && state.total > 0 && !state.rows.length;
  useEffect(() => {
    if (isNone && entered === filter) go(link.recall({ q: filter })); // also if Enter came before the answer
  }, [isNone, entered, filter]);
  let body = html`<${List} state=${state} open=${(session) => go(link.session(session))} />`;
  if (!state.rows) body = state.error ? html`<${Failed} error=${state.error} retry=${state.retry} />` : html`<${Loading} what="sessions" />`;
  else if (!state.total) {
    body = html`<${Empty} title="No session yet">Point a client at the gateway, or open a session with the library: it appears here by itself.<//>`;
  } else if (!state.rows.length) {
    const search = html`<a class="button" href=${link.recall({ q: filter })}>Search everything said for “${plain(filter, 80)}”</a>`;
    body = html`<${Empty} title="No session is named so">${search} (<kbd>Enter</kbd>), or clear the filter to see all ${count(state.total)}.<//>`;
  }
  return html`<h1 class="sr">Sessions</h1>
    <div class="tools">
      <${Search} label="Filter" hint="filter: words of the name, model:opus, client:codex, folded:yes" value=${filter} change=${type}
        enter=${() => setEntered(filter)} />
      ${state.rows && html`<span class="quiet-text" role="status">${count(state.matching)} of ${count(state.total)} shown</span>`}
    </div>
    <${Costs} />
    ${body}`;
}
