// One request of the gateway beside the list: why it was folded or not, its sizes, phases and headers.
import { html } from './vendor/htm-preact.js';
import { at, useData } from './api.js';
import { Bars } from './bar.js';
import { Dialog } from './dialog.js';
import { bytes, count, milliseconds, percent } from './format.js';
import { link } from './router.js';
import { plain } from './text.js';

const CLOCK_SECONDS = 1; // the row and the log take the time apart from each other
const PHASES = ['read', 'identify', 'fold', 'first_byte', 'last_byte'];

export const statusOf = (row) => (row.statuses?.length > 1 ? row.statuses.join('→') : row.status ?? '…');

const Pairs = ({ pairs }) => html`<dl class="pairs">${pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;

function Phases({ phases }) {
  const reached = PHASES.filter((phase) => phases[phase] != null);
  const whole = reached.reduce((total, phase) => total + phases[phase], 0) || 1;
  const rows = reached.map((phase) => [phase.replace('_', ' '), phases[phase], milliseconds(phases[phase])]);
  return html`<${Bars} caption="Phases" whole=${whole} rows=${rows} />`;
}

// The fold that was made for a request, by its time: the gateway remembers none of the session's own names.
function useMadeFold(row, who) {
  const session = useData(row.session && row.fold === 'made' ? at(who, '', { measure: 0 }) : null).data;
  const end = row.at + (row.total_ms ?? Infinity) / 1000;
  return session?.folds.findLast((fold) => fold.at >= row.at - CLOCK_SECONDS && fold.at <= end + CLOCK_SECONDS);
}

function describe(row, who, made) {
  const { usage } = row;
  const fold = made ? html`made <a href=${link.fold(who, made.label)}>▼ ${made.label}</a>` : plain(row.fold, 20);
  return [
    ['session', row.session ? html`<a href=${link.session(who)}>${plain(row.session, 80)}</a>` : 'none'],
    ['model', plain(row.model || '–', 60)],
    ['client', plain(row.client || '–', 60)],
    ['fold', fold],
    ['status', `${statusOf(row)} · ${plain(row.outcome)}`],
    ['tokens', `${count(row.tokens_in)} came, ${count(row.tokens_sent)} sent`],
    ['cache', usage ? `${percent(row.cache_share)} · ${count(usage.cache_read)} read, ${count(usage.cache_write)} written` : '–'],
    ['body', `${bytes(row.bytes_in)} came, ${bytes(row.bytes_sent)} sent, ${bytes(row.bytes_out)} answered`],
  ];
}

export function RequestDrawer({ row, close }) {
  const who = { name: row.session, tenant: row.tenant };
  const made = useMadeFold(row, who);
  const headers = Object.entries(row.headers ?? {}).map(([name, value]) => [plain(name, 60), plain(value)]);
  return html`<${Dialog} title=${`${plain(row.method, 20)} ${plain(row.path, 80)}`} kind="drawer" close=${close}>
    <p class="why">${plain(row.why || 'No reason was given.', 600)}</p>
    <${Pairs} pairs=${describe(row, who, made)} />
    <${Phases} phases=${row.phases ?? {}} />
    <h3>Headers, without secrets</h3>
    <${Pairs} pairs=${headers} />
  <//>`;
}
