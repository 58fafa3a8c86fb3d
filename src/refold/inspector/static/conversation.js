// The conversation of a session in rows: what the model sees with its folds as cards, or everything that was said.
import { html, useMemo, useRef, useState } from './vendor/htm-preact.js';
import { count, plural, short, span } from './format.js';
import { MessageDrawer } from './message.js';
import { useActions, usePage } from './page.js';
import { usePages } from './pages.js';
import { go, link } from './router.js';
import { Rows } from './rows.js';
import { Empty } from './states.js';
import { plain } from './text.js';

const CARD_ROWS = 3;

const isSummary = (item) => item.summary ?? item.covers.some(([first, last]) => last > first);

const spanOf = (item) => (item.kind === 'messages' ? [item.first, item.last]
  : [Math.min(...item.covers.map(([first]) => first)), Math.max(...item.covers.map(([, last]) => last))]);

// Stretches of rows in order: {first} for messages, {item} for a fold, {gap} for what left without a trace here, {system}.
export function layOut(session, mode) {
  const stretches = [];
  let from = 0;
  const add = (stretch) => {
    stretches.push({ ...stretch, from });
    from += stretch.rows;
  };
  if (session.system) add({ rows: 1, system: session.system });
  if (mode === 'said') add({ rows: session.said, first: 1 });
  else {
    let next = 1;
    for (const item of session.view) {
      const [first, last] = spanOf(item);
      if (first > next && first < Infinity) add({ rows: 1, gap: [next, first - 1] });
      if (last > 0) next = Math.max(next, last + 1);
      if (item.kind === 'messages') add({ rows: item.last - item.first + 1, first: item.first });
      else add({ rows: 1, item });
    }
  }
  const isCard = (stretch) => stretch.item && isSummary(stretch.item);
  return { stretches, rows: from, tall: stretches.filter(isCard).map((stretch) => [stretch.from, CARD_ROWS]) };
}

function find(stretches, index) {
  let low = 0;
  let high = stretches.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (stretches[middle].from <= index) low = middle;
    else high = middle - 1;
  }
  return stretches[low];
}

// The row in which a message stands, or the fold that stands in its place.
function rowOf(stretches, number) {
  for (const stretch of stretches) {
    if (stretch.first && number >= stretch.first && number < stretch.first + stretch.rows) return stretch.from + number - stretch.first;
    const runs = stretch.gap ? [stretch.gap] : stretch.item?.covers;
    if (runs?.some(([first, last]) => number >= first && number <= last)) return stretch.from;
  }
  return null;
}

export const cell = (name, content, title) => html`<span role="gridcell" class=${`m-${name}`} title=${title}>${content}</span>`;

function stateOf(row) {
  const words = [row.pinned && '⌖ pinned', row.fold && `▼ in ${row.fold}`, row.failed && '✕ failed', row.images && `▣ ${row.images}`];
  return words.filter(Boolean).join(' ');
}

export function messageCells(number, row, mark = '') {
  if (!row) return [cell('number', `#${number}`), cell('role', ''), cell('line', '…')];
  return [
    cell('number', row.handle ?? `#${number}`), cell('role', row.results ? 'tool' : row.role), cell('line', plain(row.line)),
    cell('state', mark || stateOf(row)), cell('tokens', short(row.tokens), `${count(row.tokens)} tokens`),
  ];
}

function FoldCard({ who, item, fold, canWrite, unfold }) {
  const sizes = `${short(fold?.tokens_before)} → ${short(fold?.tokens_after)} tokens`;
  const facts = fold?.facts_kept ? plural(fold.facts_kept, 'fact') + ' kept' : '';
  const words = [`covers ${fold?.handle.replace('-', '–')}`, sizes, plain(fold?.stages.join(', '), 80), facts].filter(Boolean).join(' · ');
  return html`<div role="gridcell" class="card">
    <p class="card-head"><b>▼ ${item.label}</b> <span class="card-words">${words}</span>
      <span class="spring"></span>
      <a class="button" href=${link.fold(who, item.label)}>diff</a>
      ${canWrite && html`<button onClick=${() => unfold(item.label)}>unfold</button>`}</p>
    <p class="card-text">${plain(item.line.replace(/^## History Summary /, '').replace(/ (--- )?##+ /g, ' · '))}</p>
  </div>`;
}

export function Conversation({ who, session, mode, selected, handle, start, showAll }) {
  const { stretches, rows, tall } = useMemo(() => layOut(session, mode), [session, mode]);
  const folds = useMemo(() => new Map(session.folds.map((fold) => [fold.name, fold])), [session]);
  const pages = usePages(who, session.version);
  const [opened, setOpened] = useState(null);
  const list = useRef(null);
  const { canWrite } = usePage();
  const { pin, unfold } = useActions(who);
  const numberAt = (index) => {
    const stretch = find(stretches, index);
    return stretch.first ? stretch.first + index - stretch.from : null;
  };
  if (handle) handle.current = { show: (number) => list.current?.show(rowOf(stretches, number) ?? 0) };

  const render = (index, isActive) => {
    const stretch = find(stretches, index);
    const { item, system, gap } = stretch;
    if (gap) return [cell('number', '⋯'), cell('gap', `${plural(gap[1] - gap[0] + 1, 'message')} left the view: ${span(...gap)}`)];
    if (system) return messageCells(null, { handle: '–', role: 'system', line: 'system prompt, closed by default', tokens: system.tokens });
    if (item && isSummary(item)) return html`<${FoldCard} ...${{ who, item, canWrite, unfold }} fold=${folds.get(item.fold)} />`;
    if (item) {
      const [run] = item.covers;
      const [, line] = item.line.match(/^← \S+ (.*)$/s) ?? []; // a tool's result, behind the id of its call
      const shown = line == null ? item : { ...item, line, results: 1 };
      return messageCells(null, { ...shown, handle: run ? span(...run) : item.label }, `▼ ${run ? 'shortened' : 'added'} by ${item.label}`);
    }
    const number = numberAt(index);
    const row = pages.get(number);
    const isSelected = selected && number >= selected.first && number <= selected.last;
    const cells = messageCells(number, row, isSelected ? '◂ selected' : '');
    if (!isActive || !row) return cells;
    const pinned = canWrite && html`<button onClick=${() => pin(row.handle, !row.pinned)}>${row.pinned ? 'unpin' : 'pin'}</button>`;
    return [...cells, cell('act', [pinned, html`<button onClick=${() => setOpened(number)}>whole</button>`])];
  };
  const open = (index) => {
    const { item, system, gap } = find(stretches, index);
    if (gap) showAll(gap[0]);
    else if (item && isSummary(item)) go(link.fold(who, item.label));
    else setOpened(system ? 'system' : item ? `${item.label}/${item.place}` : numberAt(index));
  };
  const want = (first, last) => {
    const numbers = [];
    for (let index = first; index <= last; index += 1) numbers.push(numberAt(index));
    pages.want(numbers.filter((number) => number != null));
  };
  const unfoldRow = (index) => {
    const label = find(stretches, index).item?.label ?? pages.get(numberAt(index))?.fold;
    return canWrite && label ? unfold(label) : false;
  };
  const pinRow = (index) => {
    const row = pages.get(numberAt(index));
    return canWrite && row ? pin(row.handle, !row.pinned) : false;
  };
  if (!rows) return html`<${Empty} title="Nothing was said yet">Messages appear here as they come.<//>`;
  return html`<${Rows} label=${mode === 'sent' ? 'What the model sees' : 'Everything that was said'} count=${rows} tall=${tall} render=${render}
      open=${open} handle=${list} onRange=${want} keys=${{ u: unfoldRow, p: pinRow }} start=${start ? rowOf(stretches, start) ?? 0 : tall[0]?.[0] ?? 0} />
    ${opened != null && html`<${MessageDrawer} who=${who} number=${opened} said=${session.said} show=${setOpened} close=${() => setOpened(null)} />`}`;
}
