// The meter over time: tokens of each request as sent, what they would have been without folds, and what happened.
/* global uPlot */
import { html, useEffect, useRef } from './vendor/htm-preact.js';
import { at, isAbout, useData } from './api.js';
import { count, percent, plural, short } from './format.js';
import { drawMarks, drawRoom, MARKS } from './marks.js';

const DARK = matchMedia('(prefers-color-scheme: dark)');
const MOST_ROOMS = 3.2; // a line that grows far over the room would press the other one flat
const POINTS = 400;
const STEPS = [0, 1, 2, 3, 4, 5].flatMap((zeros) => [1, 2, 5].map((step) => step * 10 ** zeros)); // no half request

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function findTop(usage) {
  const top = Math.max(usage.room * 1.05, ...usage.sent);
  return Math.max(top, Math.min(Math.max(...usage.without), usage.room * MOST_ROOMS) * 1.04);
}

function describe(usage, place) {
  const cached = usage.cached[place];
  const more = usage.without[place] - usage.sent[place];
  return [
    `request ${count(usage.n[place])} · #${count(usage.said[place])}`, `sent ${short(usage.sent[place])}`,
    more > 0 ? `without folds ${short(usage.without[place])}` : '', cached == null ? '' : `cache ${percent(cached)}`,
  ].filter(Boolean).join(' · ');
}

function makeOptions(usage, width, height, readout, select) {
  const [line, faint, grid] = [colour('accent'), colour('muted'), colour('line')];
  const axis = { stroke: faint, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: '11px system-ui' };
  const last = usage.n.length - 1;
  return {
    width, height, padding: [22, 12, 0, 0], legend: { show: false },
    scales: { x: { time: false }, y: { range: [0, findTop(usage)] }, cache: { range: [0, 12] } },
    axes: [{ ...axis, size: 24, incrs: STEPS, values: (_, ticks) => ticks.map(count) }, { ...axis, size: 52, values: (_, ticks) => ticks.map(short) }],
    series: [
      {},
      { label: 'cache', scale: 'cache', stroke: faint, fill: colour('faint'), width: 0, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
      { label: 'without', stroke: faint, width: 1.5, dash: [2, 4], points: { show: false } },
      { label: 'sent', stroke: line, width: 2, fill: colour('accent-faint'), points: { show: false } },
    ],
    cursor: { drag: { x: true, y: false, setScale: false }, y: false, points: { show: false } },
    hooks: {
      draw: [(plot) => drawRoom(plot, usage.room, colour('warn')), (plot) => drawMarks(plot, usage.marks, colour('fold'), colour('text'))],
      setCursor: [(plot) => {
        readout.textContent = describe(usage, plot.cursor.idx ?? last);
      }],
      setSelect: [(plot) => {
        const { left, width: wide } = plot.select;
        const [first, end] = [left, left + wide].map((x) => usage.said[plot.posToIdx(x)]);
        if (wide > 4) select(first, end);
        else select(first);
      }],
    },
  };
}

function Legend({ usage, readout }) {
  const kinds = new Set(usage.marks.map((mark) => mark.kind));
  const item = (sign, words, kind = 'mark') => html`<span><i class=${`l-${kind}`} aria-hidden="true">${sign}</i> ${words}</span>`;
  return html`<figcaption>
    <span class="readout" ref=${readout}></span>
    ${item('━', 'sent', 'sent')}${item('┄', 'without folds', 'faint')}
    ${usage.cached.some((share) => share != null) && item('▂', 'cache hit', 'faint')}
    ${Object.entries(MARKS).map(([kind, [sign, words]]) => kinds.has(kind) && item(sign, words))}
  </figcaption>`;
}

// Why there is no line yet: it needs two reports of usage that can be the size of their requests.
function explainNone({ requests, n }) {
  const doubted = requests - n.length;
  const so = `${plural(requests, 'report')} so far`;
  if (!doubted) return `The meter begins with the second report of usage: ${so}.`;
  return `The meter needs two reports of usage that fit what was sent: ${so}, ${count(doubted)} of them cannot be the size of the request.`;
}

// select(first, last) with numbers of messages; a click gives the first only.
export function Meter({ who, session, select }) {
  const usage = useData(at(who, '/usage', { points: POINTS }), isAbout(who)).data;
  const box = useRef(null);
  const readout = useRef(null);
  const chosen = useRef(select);
  chosen.current = select;
  const isDrawn = usage?.n.length > 1;
  useEffect(() => {
    if (!isDrawn) return undefined;
    let plot = null;
    const draw = () => {
      plot?.destroy();
      const { clientWidth, clientHeight } = box.current;
      const data = [usage.n, usage.cached, usage.without, usage.sent];
      plot = new uPlot(makeOptions(usage, clientWidth, clientHeight, readout.current, (...numbers) => chosen.current(...numbers)), data, box.current);
      readout.current.textContent = describe(usage, usage.n.length - 1);
    };
    const watch = new ResizeObserver(() => plot && (plot.width !== box.current.clientWidth) && draw());
    draw();
    watch.observe(box.current);
    DARK.addEventListener('change', draw);
    return () => {
      watch.disconnect();
      DARK.removeEventListener('change', draw);
      plot.destroy();
    };
  }, [usage]);
  if (!usage) return html`<div class="meter empty"></div>`;
  if (!isDrawn) {
    return html`<p class="meter-none">${explainNone(usage)}</p>`;
  }
  const folds = session.folds.filter((fold) => fold.standing).length;
  const words = `Tokens of ${count(usage.requests)} requests: ${count(usage.sent.at(-1))} sent last, ${count(usage.without.at(-1))} without folds, `
    + `room ${count(usage.room)}, ${plural(folds, 'fold')}. Drag to select messages.`;
  return html`<figure class="meter"><div class="plot" role="img" aria-label=${words} ref=${box}></div><${Legend} usage=${usage} readout=${readout} /></figure>`;
}
