// Traffic: the requests of the gateway, live; why each was folded or not, in one sentence.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/htm-preact.js';
import { getJson } from '../api.js';
import { Costs } from '../costs.js';
import { clock, count, date, milliseconds, percent, short, shortId } from '../format.js';
import { useLive } from '../live.js';
import { RequestDrawer, statusOf } from '../request.js';
import { keepParams, link } from '../router.js';
import { Rows } from '../rows.js';
import { Search } from '../search.js';
import { Empty, Loaded } from '../states.js';
import { plain } from '../text.js';

const LIMIT = 2000; // the ring of the server
const FOLDS = { made: '▼ made', ready: '▽ stands', none: '–' };
const HEADS = ['time', 'client', 'path', 'status', 'first', 'total', 'tokens', 'cache', 'fold', 'session'];

// A request that was refused for its size and went on smaller has two statuses.
const foldOf = (row) => (row.statuses?.length > 1 && row.fold === 'made' ? '▼ overflow' : FOLDS[row.fold] ?? plain(row.fold, 20));

function tokensOf({ tokens_in: came, tokens_sent: sent }) {
  if (came == null) return '–';
  return sent == null || sent === came ? short(came) : `${short(came)} → ${short(sent)}`;
}

// words must be somewhere in the row; status:>=400 client:codex session:NAME path:count
export function makeFilter(text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const [, key, rest] = word.match(/^(\w+):(.*)$/) ?? [null, null, word];
    const [, sign, number] = rest.match(/^(>=|<=|>|<|=)?(\d+)$/) ?? [];
    if (key === 'status' && number) {
      const compare = { '>=': (s) => s >= number, '<=': (s) => s <= number, '>': (s) => s > number, '<': (s) => s < number };
      return (row) => (compare[sign] ?? ((s) => s === Number(number)))(Number(row.status));
    }
    const has = (value) => String(value ?? '').toLowerCase().includes(rest.toLowerCase());
    return (row) => (key ? has(row[key]) : has(`${row.client} ${row.path} ${row.session} ${row.model} ${row.fold} ${row.why} ${row.status}`));
  });
  return (row) => tests.every((test) => test(row));
}

function cells(row) {
  const cell = (name, content, title) => html`<span role="gridcell" class=${`t-${name}`} title=${title}>${content}</span>`;
  const isBad = row.status >= 400 || row.outcome === 'upstream-lost';
  const address = row.session && link.session({ name: row.session, tenant: row.tenant }); // the first request of a talk has none
  const session = address ? html`<a href=${address} tabindex="-1">${plain(shortId(row.session), 60)}</a>` : '–';
  return [
    cell('time', clock(row.at), date(row.at)), cell('client', plain(row.client || '–', 40)), cell('path', plain(row.path, 80), plain(row.path)),
    cell('status', `${isBad ? '✕ ' : ''}${statusOf(row)}`, plain(row.outcome)), cell('first', milliseconds(row.first_ms)),
    cell('total', row.total_ms == null ? '● open' : milliseconds(row.total_ms)),
    cell('tokens', tokensOf(row), `${count(row.tokens_in)} → ${count(row.tokens_sent)} tokens`), cell('cache', percent(row.cache_share)),
    cell('fold', foldOf(row), plain(row.why)),
    cell('session', session), cell('why', plain(row.why, 300)),
  ];
}

function Rates({ rates }) {
  const items = [
    [rates.per_second?.toFixed(1), 'req/s'], [count(rates.open), 'open'],
    [rates.added_p50_ms == null ? null : `+${rates.added_p50_ms.toFixed(1)} ms`, 'p50'],
    [rates.folds_per_minute?.toFixed(1), 'folds/min'], [count(rates.errors), rates.errors === 1 ? 'error' : 'errors'],
  ];
  return html`<p class="rates">${items.map(([value, words]) => html`<span><b>${value ?? '–'}</b> ${words}</span>`)}</p>`;
}

function List({ data, filter }) {
  const [opened, setOpened] = useState(null);
  const rows = useMemo(() => data.rows.filter(makeFilter(filter)), [data, filter]);
  const row = opened == null ? null : data.rows.find((one) => one.id === opened);
  if (!data.rows.length) {
    return html`<${Empty} title="No request yet">Point a client at the gateway: only its base URL changes. Requests appear here by themselves.<//>`;
  }
  if (!rows.length) return html`<${Empty} title="Nothing matches">No request matches “${plain(filter, 80)}”.<//>`;
  return html`<div class="table traffic-table">
    <div class="head" aria-hidden="true">${HEADS.map((name) => html`<span class=${`t-${name}`}>${name === 'tokens' ? 'in → sent' : name}</span>`)}</div>
    <${Rows} label="Requests" count=${rows.length} wide=${54} narrow=${96} render=${(index) => cells(rows[index])}
      open=${(index) => setOpened(rows[index].id)} />
    ${row && html`<${RequestDrawer} row=${row} close=${() => setOpened(null)} />`}
  </div>`;
}

// {data: {rows, rates}, error}: only what is new or was open is read again; while paused nothing is.
function useTraffic(paused) {
  const [state, setState] = useState({ data: null, error: null });
  const known = useRef([]);
  const reading = useRef({ busy: false, again: false });
  const read = async (isWhole) => {
    const turn = reading.current;
    if (turn.busy) {
      turn.again = true; // an answer that is on its way may be older than what happened now
      return;
    }
    turn.busy = true;
    const open = known.current.filter((row) => row.total_ms == null).map((row) => row.id);
    const after = isWhole || !known.current.length ? 0 : Math.min(known.current[0].id, ...open.map((id) => id - 1));
    try {
      const { rows, rates } = await getJson(`traffic?${new URLSearchParams({ after, limit: LIMIT })}`);
      known.current = [...rows, ...known.current.filter((row) => row.id <= after)].slice(0, LIMIT);
      setState({ data: { rows: known.current, rates }, error: null });
    } catch (error) {
      setState((old) => ({ ...old, error }));
    }
    turn.busy = false;
    if (turn.again) {
      turn.again = false;
      read(false);
    }
  };
  useEffect(() => {
    if (!paused) read(false);
  }, [paused]);
  useLive((event) => !paused && (event.kind === 'traffic' ? read(false) : event.kind === 'reset' && read(true)));
  return { ...state, reload: () => read(true) };
}

export function TrafficView({ route }) {
  const [filter, setFilter] = useState(route.params.q ?? '');
  const [paused, setPaused] = useState(false);
  const from = useTraffic(paused);
  const type = (text) => {
    setFilter(text);
    keepParams({ q: text });
  };
  return html`<h1 class="sr">Traffic</h1>
    <div class="tools">
      <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? '▶ go on' : '❚❚ pause'}</button>
      <${Search} label="Filter" hint="filter: status:>=400 client:codex session:NAME words" value=${filter} change=${type} />
      ${from.data && html`<${Rates} rates=${from.data.rates} />`}
    </div>
    <${Costs} />
    <${Loaded} from=${from} what="requests">${(data) => html`<${List} data=${data} filter=${filter} />`}<//>`;
}
