// The same history by every policy: how much would be left, what it would cost, and which messages would fare otherwise.
import { html, useEffect, useState } from './vendor/htm-preact.js';
import { at, getJson } from './api.js';
import { Dialog } from './dialog.js';
import { count, money, plural, short } from './format.js';
import { usePage } from './page.js';
import { paysBack, runs } from './plan.js';
import { plain } from './text.js';

const MOST_RUNS = 12;
const HEADS = ['policy', 'tokens left', '', 'messages', 'questions to a model', 'cost now', 'pays back'];

// {name: plan or {error}}: one after the other, so that rows fill up and a page that is left asks no more.
function usePlans(who, names, params) {
  const [plans, setPlans] = useState({});
  const wanted = JSON.stringify([names, params]);
  useEffect(() => {
    const stop = new AbortController();
    const read = async () => {
      for (const policy of names) {
        let plan;
        try {
          plan = await getJson(at(who, '/plan', { ...params, policy }), stop.signal);
        } catch (error) {
          if (error.name === 'AbortError') return;
          plan = { error };
        }
        setPlans((old) => ({ ...old, [policy]: plan }));
      }
    };
    setPlans({});
    read();
    return () => stop.abort();
  }, [wanted]);
  return plans;
}

function Row({ name, about, plan, most, chosen, choose }) {
  const words = plain(name, 40);
  const button = html`<button class="quiet" aria-pressed=${chosen} title=${about} onClick=${choose}>${words}</button>`;
  const title = html`<th scope="row">${choose ? button : words}</th>`;
  const wide = (text) => html`<tr>${title}<td colspan=${HEADS.length - 1} class="reason">${text}</td></tr>`;
  if (!plan) return wide('…');
  if (plan.error) return wide(`✕ ${plain(plan.error.message)}`);
  if (plan.would_compact === false) return wide(`folds nothing: ${plain(plan.reason, 200)}`);
  const number = (value, all) => html`<td class="number" title=${all}>${value}</td>`;
  const left = plan.tokens_after;
  return html`<tr>${title}${left == null ? number('–', plan.why) : number(short(left), count(left))}
    <td class="fill"><span style=${{ width: `${(100 * (left ?? 0)) / most}%` }}></span></td>${number(count(plan.messages_after))}
    ${number(plan.model_calls ? count(plan.model_calls) : 'none')}${number(money(plan.money_now))}
    ${number(paysBack(plan).replace('pays back after ', '') || '–')}</tr>`;
}

const numbersOf = (ranges) => new Set(ranges.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, n) => first + n)));

function joinRuns(numbers) {
  const ranges = [];
  for (const number of numbers) {
    if (ranges.at(-1)?.[1] === number - 1) ranges.at(-1)[1] = number;
    else ranges.push([number, number]);
  }
  return ranges;
}

// Which messages the plan and the base treat otherwise.
function Difference({ name, plan, base }) {
  const [mine, other] = [numbersOf(plan.leaving), numbersOf(base.leaving)];
  const list = (words, numbers) => {
    const ranges = joinRuns(numbers);
    const more = ranges.length > MOST_RUNS ? ` and ${count(ranges.length - MOST_RUNS)} more stretches` : '';
    return html`<li>${words}: <b>${plural(numbers.length, 'message')}</b> <span class="quiet-text">${runs(ranges.slice(0, MOST_RUNS))}${more}</span></li>`;
  };
  return html`<section class="difference" aria-label="Difference"><h3>${plain(name, 40)} beside ${base.words}</h3><ul class="leaves">
    ${list(`keeps what ${base.words} takes out`, [...other].filter((number) => !mine.has(number)))}
    ${list(`takes out what ${base.words} keeps`, [...mine].filter((number) => !other.has(number)))}
    <li class="quiet-text">${plain(plan.reason, 300)}</li></ul></section>`;
}

// A fold that was made, in the numbers of a plan; before: its messages, those that stayed marked.
export function describeMade(fold, before) {
  const leaving = before.filter((one) => one.number != null && !one.stays).map((one) => [one.number, one.number]);
  const { label: words, messages_after, spent } = fold;
  const made = { words, leaving, messages_after, model_calls: spent.calls, money_now: spent.dollars };
  // One of another branch or session was measured there, with other messages around it.
  if (fold.trigger === 'carried') return { ...made, tokens_before: 0, tokens_after: null, why: 'it was made and measured elsewhere' };
  return { ...made, tokens_before: fold.tokens_before, tokens_after: fold.tokens_after };
}

function Intro({ fold, before }) {
  const what = fold ? `What each policy would have made of the history before ${fold.label}` : 'What each policy would make of the view now';
  return html`<p>${what}${before ? `: ${count(before)} tokens` : ''}. All are counted in the same way${fold ? ', without system prompt and tools' : ''}.</p>`;
}

// base: {words, leaving, ...numbers} of a fold that was made; without one the policy in use is the base.
export function CompareDialog({ who, session, fold, base, close }) {
  const { about } = usePage();
  const [model, setModel] = useState(fold ? fold.spent.calls > 0 : about.summariser);
  const known = new Map(about.policies.map((policy) => [policy.name, policy.about]));
  const names = [...new Set([session.policy, ...known.keys()])];
  const plans = usePlans(who, names, { model: model ? 1 : 0, ...(fold && { fold: fold.label }) });
  const [chosen, setChosen] = useState(null);
  const own = plans[session.policy];
  const beside = base ?? (own?.leaving && { ...own, words: session.policy });
  const most = Math.max(1, ...[...Object.values(plans), base].map((plan) => plan?.tokens_before ?? 0));
  const row = (name) => html`<${Row} key=${name} name=${name === session.policy ? `${name}, in use` : name} plan=${plans[name]} most=${most}
    about=${known.get(name)} chosen=${chosen === name} choose=${() => setChosen(name)} />`;
  return html`<${Dialog} title=${fold ? `${fold.label} by another policy` : 'Fold now by another policy'} kind="drawer" close=${close}>
    <${Intro} fold=${fold} before=${own?.tokens_before} />
    <label class="field"><input type="checkbox" checked=${model} onChange=${(event) => setModel(event.target.checked)} />
      <span>a model summarises (a stand-in of the usual length; none is asked)</span></label>
    <div class="policies"><table><thead><tr>${HEADS.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
      <tbody>${base && html`<${Row} name=${`▼ ${base.words} as made`} plan=${base} most=${most} />`}${names.map(row)}</tbody></table></div>
    ${chosen && plans[chosen]?.leaving && beside ? html`<${Difference} name=${chosen} plan=${plans[chosen]} base=${beside} />`
    : html`<p class="quiet-text">Choose a policy to see which messages it would treat otherwise.</p>`}
    <p class="quiet-text">Plans: nothing was changed. <code>refold replay</code> plays a whole session under other policies.</p>
  <//>`;
}
