// What every view may use: facts about the server, a notice at the foot of the page, one question before a change.
import { createContext, useContext } from './vendor/htm-preact.js';
import { at, getJson, post } from './api.js';
import { count, percent, plural, short } from './format.js';

export const Page = createContext(null);
export const usePage = () => useContext(Page);

// Writes of a session, each a verb that the library has too.
export function useActions(who) {
  const { ask, say } = usePage();
  const write = (verb, body) => post(at(who, `/${verb}`), body);
  const tell = async (work, sentence) => {
    try {
      say(sentence(await work()));
    } catch (error) {
      say(`✕ ${error.message}`);
    }
  };
  return {
    pin: (handle, pinned) => tell(
      () => write('pin', { handle, pinned }),
      () => (pinned ? `${handle} is pinned: the model sees it from now on.` : `${handle} is no longer pinned.`),
    ),
    checkpoint: () => tell(() => write('checkpoint', { name: '' }), (made) => `Checkpoint ${made.name} is set.`),
    unfold: async (label) => {
      try {
        const fold = await getJson(at(who, `/folds/${encodeURIComponent(label)}`));
        ask(askUnfold(fold, () => write('unfold', { fold: label })));
      } catch (error) {
        say(`✕ ${error.message}`);
      }
    },
    rewind: (to, where) => ask({
      title: `Rewind to ${where}?`,
      lines: ['The conversation goes on from there. What came after stays on its own branch, and you can go back to it.'],
      yes: 'Rewind',
      act: () => write('rewind', { to }),
      done: (made) => `The session stands at #${made.said} now.` +
        (made.folded_again.length ? ` ${plural(made.folded_again.length, 'fold')} that had been undone stand again.` : ''),
    }),
    compact: (plan) => ask({
      title: 'Fold now?',
      lines: [
        `${count(plan.tokens_before)} → ${count(plan.tokens_after)} tokens by the policy of this session.`,
        plan.cache_tokens_lost ? `The provider reads ${short(plan.cache_tokens_lost)} tokens again that are in its cache now.` : '',
        plan.model_calls ? `${plural(plan.model_calls, 'question')} to the model that summarises.` : 'No model is asked.',
        'Everything stays in the log. Unfold takes it back.',
      ],
      yes: 'Fold now',
      act: () => write('compact', {}),
      done: (made) => (made.compacted
        ? `Folded: ${short(made.tokens_before)} → ${short(made.tokens_after)} tokens.`
        : `Nothing was folded: ${made.reason}.`),
    }),
  };
}

function askUnfold(fold, act) {
  const { used, ratio } = fold.unfold ?? {};
  const grows = used == null ? '' : `The window grows to ${percent(ratio)} (${short(used)} tokens).`;
  const over = ratio > 1 ? 'That is more than fits: the next request folds again.' : '';
  return {
    title: `Unfold ${fold.label}?`,
    lines: [
      `What ${fold.label} removed stands in the view again: ${plural(fold.messages_before, 'message')} of ${fold.handle.replace('-', '–')}.`,
      grows, over, 'Fold again to undo this.',
    ],
    yes: `Unfold ${fold.label}`,
    act,
    done: () => `${fold.label} is undone. ${grows}`,
  };
}
