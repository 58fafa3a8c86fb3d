// Text of strangers as text: what cannot be seen, or moves other characters, is shown as a marked code point.
import { html } from './vendor/htm-preact.js';

// Controls, soft hyphen, bidi marks, zero-width characters, fillers, tags, variation selectors, lone surrogates.
const UNSEEN = new RegExp(
  '[\\u0000-\\u0008\\u000B-\\u001F\\u007F-\\u009F\\u00AD\\u034F\\u061C\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F' +
  '\\u200B-\\u200F\\u2028-\\u202E\\u2060-\\u206F\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF0-\\uFFFB]' +
  '|[\\u{E0000}-\\u{E0FFF}]|\\p{Surrogate}', 'gu');
const EMOJI = /\p{Extended_Pictographic}|\p{Emoji_Modifier}|\p{Regional_Indicator}/u;
const MAX_MARKS = 400; // spans in one text; the rest is written in brackets without a span of its own

const NAMES = {
  '202A': 'left-to-right embedding', '202B': 'right-to-left embedding', '202C': 'end of embedding',
  '202D': 'left-to-right override', '202E': 'right-to-left override', '2066': 'left-to-right isolate',
  '2067': 'right-to-left isolate', '2068': 'first strong isolate', '2069': 'end of isolate',
  '200B': 'zero-width space', '200C': 'zero-width non-joiner', '200D': 'zero-width joiner',
  '200E': 'left-to-right mark', '200F': 'right-to-left mark', FEFF: 'byte order mark', '00AD': 'soft hyphen',
  '001B': 'escape', '0000': 'null', '000D': 'carriage return', '0008': 'backspace', '0007': 'bell',
};

const codeOf = (char) => char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

// A joiner between two emoji and the selector behind one are part of a picture that can be seen.
function isPartOfEmoji(text, at, char) {
  if (char !== '\u200D' && char !== '\uFE0F') return false;
  const before = [...text.slice(Math.max(0, at - 4), at)].filter((c) => c !== '\uFE0F').pop() ?? '';
  if (!EMOJI.test(before)) return false;
  return char === '\uFE0F' || EMOJI.test(String.fromCodePoint(text.codePointAt(at + 1) ?? 32));
}

// [plain text, marked character, plain text, ...]: every second one is a character to be marked.
export function splitUnseen(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (isPartOfEmoji(text, match.index, match[0])) continue;
    parts.push(text.slice(from, match.index), match[0]);
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

// One string without anything unseen, for attributes, titles and rows of one line.
export function plain(value, most = 400) {
  const whole = String(value ?? '');
  const text = whole.length > most ? whole.slice(0, most) + '…' : whole;
  const parts = splitUnseen(text.replace(/\r\n?|\n/g, ' ⏎ ').replace(/\t/g, ' '));
  return parts.map((part, place) => (place % 2 ? `⟨U+${codeOf(part)}⟩` : part)).join('');
}

function Mark({ char }) {
  const code = codeOf(char);
  return html`<span class="unseen" title=${NAMES[code] ?? 'a character that cannot be seen'}>U+${code}</span>`;
}

// A whole text with line breaks; `find` are words to be marked in it.
export function Text({ value, most = 65536, find = [] }) {
  const whole = String(value ?? '');
  const parts = splitUnseen((whole.length > most ? whole.slice(0, most) : whole).replace(/\r\n/g, '\n'));
  const shown = [];
  parts.forEach((part, place) => {
    if (place % 2 === 0) shown.push(...markWords(part, find));
    else if (place < 2 * MAX_MARKS) shown.push(html`<${Mark} char=${part} />`);
    else shown.push(`⟨U+${codeOf(part)}⟩`);
  });
  return html`<bdi class="text" dir="auto">${shown}</bdi>`;
}

function markWords(text, words) {
  const wanted = words.filter(Boolean).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  if (!wanted.length || !text) return [text];
  const found = text.split(new RegExp(`(${wanted.join('|')})`, 'iu'));
  return found.map((piece, place) => (place % 2 ? html`<mark>${piece}</mark>` : piece));
}
