// A plan in words: what a fold would do and cost, which messages would leave; of everything or of chosen messages.
import { html } from './vendor/htm-preact.js';
import { at, isAbout, useData } from './api.js';
import { Dialog } from './dialog.js';
import { count, money, percent, plural, short, span } from './format.js';
import { Loaded } from './states.js';
import { plain } from './text.js';

const MOST_LISTED = 12;

export function Messages({ words, all, list }) {
  if (!all) return null;
  const item = (one) => html`<li><b>${plain(one.handle, 20)}</b> ${one.role} · ${short(one.tokens)} · ${plain(one.stage, 30)} ${plain(one.why, 160)}</li>`;
  return html`<details><summary>${words}: ${plural(all, 'message')}</summary><ul class="leaves">${list.slice(0, MOST_LISTED).map(item)}
    ${all > MOST_LISTED && html`<li class="quiet-text">… and ${count(all - MOST_LISTED)} more</li>`}</ul></details>`;
}

export const paysBack = (plan) => (plan.break_even_turns == null ? '' : `pays back after ${plural(Math.ceil(plan.break_even_turns), 'turn')}`);

export function planFacts(plan) {
  return [
    plan.cache_tokens_lost ? `cache lost ${short(plan.cache_tokens_lost)}` : '', paysBack(plan),
    plan.money_now == null ? '' : `${money(plan.money_now)} now`,
    plan.model_calls ? `${plural(plan.model_calls, 'question')} to a model` : 'asks no model',
  ].filter(Boolean).join(' · ');
}

// The numbers of a plan and its messages; what stays is worth a list only where all might have left.
export function PlanBody({ plan, showsStaying = true }) {
  if (!plan.would_compact) return html`<p>Nothing would be folded: ${plain(plan.reason)}</p>`;
  return html`<p class="big">${short(plan.tokens_before)} → ${short(plan.tokens_after)} <span class="quiet-text">tokens</span></p>
    <p>${planFacts(plan)}</p>
    <p class="quiet-text">${plain(plan.reason, 300)}</p>
    <${Messages} words="would leave" all=${plan.leaves_count} list=${plan.leaves} />
    ${showsStaying && html`<${Messages} words="stays as it is" all=${plan.refuses_count} list=${plan.refuses} />`}`;
}

export const runs = (ranges) => ranges.map((run) => span(...run)).join(', ');

// Why more is planned than was chosen, what it saves of the window, and that nothing has happened.
function Chosen({ plan, first, last }) {
  const isMore = runs(plan.chosen) !== span(first, last);
  const saved = plan.tokens_before - plan.tokens_after;
  return html`${isMore && html`<p>Planned: ${runs(plan.chosen)}, as far as they are in the view. A call and its result leave together.</p>`}
    <${PlanBody} plan=${plan} showsStaying=${false} />
    ${plan.would_compact && html`<p>It would take ${percent(saved / plan.tokens_before)} out of the context.</p>`}
    <p class="quiet-text">A plan: nothing was changed, and no model was asked. A fold chooses by itself what leaves; a pin keeps what must stay.</p>`;
}

// The dry run of a fold of these messages alone.
export function PlanDialog({ who, first, last, close }) {
  const from = useData(at(who, '/plan', { first, last }), isAbout(who));
  return html`<${Dialog} title=${`Plan: fold of ${span(first, last)}`} close=${close}>
    <div class="question planned"><${Loaded} from=${from} what="the plan">${(plan) => html`<${Chosen} plan=${plan} first=${first} last=${last} />`}<//></div>
    <p class="buttons"><button autofocus onClick=${close}>Close</button></p>
  <//>`;
}
