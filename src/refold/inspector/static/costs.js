// What each of the last days cost, as a row of bars; tokens where no price is known.
import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { getJson } from './api.js';
import { date, money, plural, short } from './format.js';
import { useLive } from './live.js';

const DAYS = 14;
const LEAST_MS = 15_000; // between two readings: a busy gateway changes something all the time

// When each of the last days began here: a day on which clocks are changed has 23 or 25 hours.
const begins = () => {
  const now = new Date();
  const day = (back) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - back) / 1000;
  return Array.from({ length: DAYS }, (_, place) => Math.floor(day(DAYS - 1 - place))).join(',');
};
const dayOf = (at) => new Date((at + 43_200) * 1000); // noon, so that a change of the clock moves no day
const WEEKDAYS = ['Su', 'Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa'];

function useCosts() {
  const [costs, setCosts] = useState(null);
  const state = useRef({ read: 0, timer: null });
  const read = async () => {
    state.current = { read: Date.now(), timer: null };
    try {
      setCosts(await getJson(`costs?${new URLSearchParams({ begins: begins() })}`));
    } catch {
      // the list below says what is wrong
    }
  };
  const soon = () => {
    state.current.timer ??= setTimeout(read, Math.max(0, state.current.read + LEAST_MS - Date.now()));
  };
  useEffect(() => {
    read();
    return () => clearTimeout(state.current.timer);
  }, []);
  useLive((event) => (event.kind === 'session' || event.kind === 'reset') && soon());
  return costs;
}

function makeMeasure(costs) {
  if (costs.spent.dollars != null) return { size: (spent) => spent.dollars ?? 0, words: (spent) => money(spent.calls ? spent.dollars : 0) };
  const size = (spent) => spent.input + spent.output;
  return { size, words: (spent) => `${short(size(spent))} tokens` };
}

function describe(day, words) {
  const { spent, sessions } = day;
  const unpriced = spent.unpriced ? `, ${plural(spent.unpriced, 'request')} without a price` : '';
  return `${date(day.at).slice(0, 10)}: ${words(spent)}, ${plural(spent.calls, 'request')} in ${plural(sessions, 'session')}${unpriced}`;
}

export function Costs() {
  const costs = useCosts();
  if (!costs) return html`<figure class="days empty"></figure>`;
  if (!costs.spent.calls) return null;
  const { size, words } = makeMeasure(costs);
  const most = Math.max(1e-9, ...costs.days.map((day) => size(day.spent)));
  const today = costs.days.at(-1);
  const heightOf = (part) => `${part ? Math.max(4, (100 * part) / most) : 0}%`; // little is still seen
  const bar = (day) => html`<span class="day" title=${describe(day, words)}>
    <i style=${{ height: heightOf(size(day.spent)) }}></i><small>${WEEKDAYS[dayOf(day.at).getDay()]}</small></span>`;
  return html`<figure class="days" aria-label="Cost per day">
    <figcaption><span>today <b>${words(today.spent)}</b></span><span>${DAYS} days <b>${words(costs.spent)}</b></span></figcaption>
    <div class="day-bars" role="img" aria-label=${costs.days.map((day) => describe(day, words)).join('; ')}>${costs.days.map(bar)}</div>
  </figure>`;
}
