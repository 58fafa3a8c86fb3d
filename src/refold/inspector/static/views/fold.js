// Fold: what was there before, what stands there now, side by side; and the way back.
import { html, useMemo, useRef, useState } from '../vendor/htm-preact.js';
import { at, isAbout, ROOT, useData, useSession } from '../api.js';
import { CompareDialog, describeMade } from '../compare.js';
import { messageCells } from '../conversation.js';
import { count, date, milliseconds, money, percent, plural, short, span } from '../format.js';
import { useKeys } from '../keys.js';
import { MessageDrawer } from '../message.js';
import { useActions, usePage } from '../page.js';
import { usePages } from '../pages.js';
import { SummaryText } from '../provenance.js';
import { Rows } from '../rows.js';
import { Empty, Loaded } from '../states.js';
import { plain, Text } from '../text.js';
import { SessionHead } from './session.js';

const WORDS = { kept: '= kept', shortened: '− shortened', summary: 'Σ in summary', gone: '∅ gone', added: '+ added' };
const MOST_FACTS = 24;
const MOST_PUT = 40; // texts in the right column; the left one reaches all of them

// One row for each message before, in order: {number, word} or {earlier, word}. What leaves while a summary is
// made is in the summary, wherever that stands.
function listBefore(rows) {
  const list = [];
  const lastSummary = rows.findLastIndex((row) => row.kind === 'summary');
  rows.forEach((row, place) => {
    const word = WORDS[row.kind === 'gone' && place < lastSummary ? 'summary' : row.kind];
    for (const before of row.before ? [row.before, ...(row.more_before ?? [])] : []) {
      if (before.fold) list.push({ number: null, earlier: before, word });
      else for (let number = before.first; number <= before.last; number += 1) list.push({ number, word, stays: row.kind === 'kept' });
    }
  });
  return list;
}

function Before({ who, list, version, marked, handle, open }) {
  const pages = usePages(who, version);
  const render = (index) => {
    const { number, earlier, word } = list[index];
    const sign = marked.has(number) ? `◂ source · ${word}` : word;
    if (earlier) {
      const runs = (earlier.covers ?? []).map((run) => span(...run)).join(', ');
      const line = `what ${earlier.fold} had put in place of ${runs || 'others'}`;
      return messageCells(null, { handle: earlier.fold, role: 'fold', line, tokens: null }, sign);
    }
    return messageCells(number, pages.get(number), sign);
  };
  const want = (first, last) => pages.want(list.slice(first, last + 1).map((one) => one.number).filter(Boolean));
  if (!list.length) return html`<${Empty} title="Nothing left the view">This fold put messages in without taking any out.<//>`;
  return html`<${Rows} label="Messages before the fold" count=${list.length} render=${render} onRange=${want} handle=${handle}
    open=${(index) => open(list[index])} />`;
}

function beforeWords(before) {
  if (!before) return 'added';
  return before.fold ? `in place of ${before.fold}` : `in place of ${span(before.first, before.last)}`;
}

function Put({ row, point }) {
  const { after } = row;
  const isSummary = row.kind === 'summary';
  const words = [after.role, beforeWords(row.before), `${short(after.tokens)} tokens`, plain(row.stage, 30)].filter(Boolean).join(' · ');
  return html`<article class=${`put ${row.kind}`}>
    <h3>${isSummary ? 'Σ summary' : WORDS[row.kind]} <span class="quiet-text">${words}</span></h3>
    <div class="put-text">${isSummary ? html`<${SummaryText} text=${after.text} sentences=${row.sentences} point=${point} />`
    : html`<${Text} value=${after.text} />`}</div>
  </article>`;
}

function Facts({ facts }) {
  if (!facts || (!facts.kept.length && !facts.lost.length)) return null;
  const fact = (one) => html`<li title=${plain(one.kind, 40)}>${plain(one.text, 80)} <span class="quiet-text">${plain(one.handle, 20)}</span></li>`;
  const list = (sign, items, words) => items.length > 0 && html`<h3>${sign} ${plural(items.length, 'fact')} ${words}</h3>
    <ul class="tags">${items.slice(0, MOST_FACTS).map(fact)}</ul>`;
  return html`<section class="facts-kept" aria-label="Facts">${list('✓', facts.kept, 'stand in the text')}
    ${list('↪', facts.lost, 'are behind their message: recall finds them')}</section>`;
}

function Numbers({ fold }) {
  const tile = (words, big, small) => html`<div class="tile"><span>${words}</span><b>${big}</b><small>${small}</small></div>`;
  const next = fold.next_request;
  const { calls, input, output, dollars } = fold.spent;
  const asked = calls && [plain(fold.model, 40), `${short(input + output)} tokens`, dollars == null ? '' : money(dollars)].filter(Boolean).join(' · ');
  return html`<div class="tiles">
    ${tile('before', short(fold.tokens_before), plural(fold.messages_before, 'message'))}
    ${tile('after', short(fold.tokens_after), plural(fold.messages_after, 'message'))}
    ${tile('next request said', next ? short(next.tokens) : '–', next ? `✓ ${count(next.tokens)} tokens in all` : 'no request since')}
    ${tile('a model was asked', fold.spent.calls ? plural(fold.spent.calls, 'time') : 'never', asked || 'made without a model')}
  </div>`;
}

function Head({ who, fold, undo, compare }) {
  const { canWrite } = usePage();
  const state = fold.standing ? (fold.covered_by ? `covered by ${fold.covered_by}` : 'stands') : 'undone';
  const time = fold.seconds == null ? '' : milliseconds(fold.seconds * 1000);
  const origin = fold.taken_from ? `taken over from session ${fold.taken_from}` : 'taken along from another branch';
  const full = fold.ratio == null ? '' : ` at ${percent(fold.ratio)}`;
  const trigger = fold.trigger === 'carried' ? origin : fold.trigger && `trigger ${fold.trigger}${full}`;
  const again = fold.made_again && 'made again around what was brought back';
  const words = [fold.handle.replace('-', '–'), state, date(fold.at), trigger, again, fold.stages.join(', '), time];
  return html`<div class="tools">
    <h2>▼ ${fold.label} <span class="quiet-text">${words.filter(Boolean).map((word) => plain(word, 80)).join(' · ')}</span></h2>
    <span class="spring"></span>
    ${canWrite && fold.standing && html`<button class="primary" onClick=${undo}>
      unfold ${fold.label}${fold.unfold ? ` → ${percent(fold.unfold.ratio)}` : ''}</button>`}
    <button onClick=${compare}>compare with another policy</button>
    <a class="button" href=${ROOT + at(who, '/export')} download>export</a>
  </div>`;
}

function Body({ who, session, fold }) {
  const list = useMemo(() => listBefore(fold.rows), [fold]);
  const [marked, setMarked] = useState(new Set());
  const [opened, setOpened] = useState(null);
  const [compared, setCompared] = useState(false);
  const left = useRef(null);
  const { canWrite } = usePage();
  const { unfold } = useActions(who);
  const undo = () => (canWrite && fold.standing ? unfold(fold.label) : false);
  useKeys({ u: undo });
  const point = (sources) => {
    setMarked(new Set(sources));
    const first = list.findIndex((one) => sources.includes(one.number));
    if (first >= 0) left.current?.show(first);
  };
  const put = fold.rows.filter((row) => row.after?.text != null);
  const order = [...put.filter((row) => row.kind !== 'shortened'), ...put.filter((row) => row.kind === 'shortened')];
  return html`<${Head} who=${who} fold=${fold} undo=${undo} compare=${() => setCompared(true)} />
    <${Numbers} fold=${fold} />
    <div class="compare">
      <section class="before" aria-labelledby="before"><h2 id="before">before <span class="quiet-text">${plural(list.length, 'message')}</span></h2>
        <${Before} who=${who} list=${list} version=${session.version} marked=${marked} handle=${left}
          open=${(one) => setOpened(one.number ?? `${one.earlier.fold}/${one.earlier.place}`)} /></section>
      <section class="after" aria-labelledby="after" tabindex="0"><h2 id="after">after <span class="quiet-text">what stands there now</span></h2>
        ${order.slice(0, MOST_PUT).map((row) => html`<${Put} row=${row} point=${point} />`)}
        ${order.length > MOST_PUT && html`<p class="quiet-text">… and ${count(order.length - MOST_PUT)} more: open a row on the left.</p>`}
        <${Facts} facts=${fold.facts} />
        <details><summary>receipt</summary><pre tabindex="0"><${Text} value=${JSON.stringify(fold.receipt, null, 2)} /></pre></details></section>
    </div>
    ${opened != null && html`<${MessageDrawer} who=${who} number=${opened} said=${session.said} show=${setOpened} close=${() => setOpened(null)} />`}
    ${compared && html`<${CompareDialog} ...${{ who, session, fold }} base=${describeMade(fold, list)} close=${() => setCompared(false)} />`}`;
}

export function FoldView({ who, route }) {
  const session = useSession(who);
  const fold = useData(at(who, `/folds/${encodeURIComponent(route.id)}`), isAbout(who));
  return html`<${Loaded} from=${session} what="the session">${(about) => html`
    <${SessionHead} who=${who} session=${about} here="fold" id=${route.id} />
    <${Loaded} from=${fold} what="the fold">${(data) => html`<${Body} who=${who} session=${about} fold=${data} />`}<//>`}<//>`;
}
