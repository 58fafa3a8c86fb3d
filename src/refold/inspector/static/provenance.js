// A summary line by line, with its sentences tied to the messages they came from where the fold knows them.
import { html } from './vendor/htm-preact.js';
import { Text } from './text.js';

const LOOK_AHEAD = 4; // sentences that may be missing in the text, because they were cut or joined otherwise
const LEAST_WORDS = 3;

// Where the sentence, or as much of its end as there is, stands in the line: [start, end] or null.
function locate(line, sentence) {
  const words = sentence.trim().split(/\s+/);
  for (let skip = 0; skip === 0 || words.length - skip >= LEAST_WORDS; skip += 1) {
    const part = words.slice(skip).join(' ');
    const start = line.indexOf(part);
    if (part && start >= 0) return [start, start + part.length];
  }
  return null;
}

// [[{text, sources}, ...] for each line]; sentences come in the order of the text.
export function tieSentences(text, sentences) {
  let next = 0;
  return text.split('\n').map((line) => {
    const pieces = [];
    let rest = line;
    for (let tried = next; tried < Math.min(next + LOOK_AHEAD, sentences.length);) {
      const found = locate(rest, sentences[tried].text);
      if (!found) tried += 1;
      else {
        if (found[0]) pieces.push({ text: rest.slice(0, found[0]), sources: [] });
        pieces.push({ text: rest.slice(...found), sources: sentences[tried].sources });
        rest = rest.slice(found[1]);
        next = tried + 1;
        tried = next;
      }
    }
    if (rest || !pieces.length) pieces.push({ text: rest, sources: [] });
    return pieces;
  });
}

// A button that breaks over lines like text.
function Sentence({ piece, point }) {
  const numbers = piece.sources.map((number) => `#${number}`);
  const press = (event) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), point(piece.sources));
  return html`<span role="button" tabindex="0" class="sentence" title=${`from ${numbers.join(', ')}`}
    onClick=${() => point(piece.sources)} onKeyDown=${press}><${Text} value=${piece.text} /><sup> ${numbers.slice(0, 2).join(' ')}</sup></span>`;
}

const kindOf = (line) => (!line.trim() ? 'line-none' : /^#+ /.test(line) ? 'line-head' : /^<\/?[a-z-]+[^>]*>$|^---$/.test(line) ? 'line-tag' : 'line');

export function SummaryText({ text, sentences, point }) {
  return tieSentences(text, sentences ?? []).map((pieces) => {
    const line = pieces.map((piece) => piece.text).join('');
    const kind = kindOf(line);
    if (kind !== 'line') return html`<div class=${kind}><${Text} value=${line} /></div>`;
    return html`<div>${pieces.map((piece) => (piece.sources.length
      ? html`<${Sentence} piece=${piece} point=${point} />` : html`<${Text} value=${piece.text} />`))}</div>`;
  });
}
