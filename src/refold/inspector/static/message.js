// One message whole, beside the list: its parts as text, images only on a click, pin, rewind, secrets.
import { html, useEffect, useState } from './vendor/htm-preact.js';
import { at, getBlob, getText, isAbout, useData } from './api.js';
import { Dialog } from './dialog.js';
import { bytes, count, date } from './format.js';
import { useActions, usePage } from './page.js';
import { PlanDialog } from './plan.js';
import { link } from './router.js';
import { Loaded } from './states.js';
import { plain, Text } from './text.js';

const MOST_SHOWN = 1_000_000; // characters of a whole text on the page; the file has the rest

function Image({ who, number, part }) {
  const [address, setAddress] = useState(null);
  const [problem, setProblem] = useState('');
  useEffect(() => () => address && URL.revokeObjectURL(address), [address]);
  const show = async () => {
    try {
      setAddress(URL.createObjectURL(await getBlob(at(who, `/entries/${number}/images/${part.index}`))));
    } catch (error) {
      setProblem(error.message);
    }
  };
  const facts = `${plain(part.media_type, 60)} · ${bytes(part.bytes)}`;
  if (address) return html`<img class="picture" src=${address} alt=${`image of message ${number}, ${facts}`} />`;
  if (part.remote) return html`<p class="part-head">▣ image at another address, not fetched: <code>${plain(part.remote)}</code></p>`;
  return html`<p class="part-head">▣ image · ${facts} ${part.drawable ? html`<button onClick=${show}>show</button>` : '· not drawn'}
    ${problem && html`<span role="alert">✕ ${problem}</span>`}</p>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // arguments that are cut, or no JSON
  }
}

function Part({ part, who, number, find }) {
  const block = (text) => html`<pre tabindex="0"><${Text} value=${text} find=${find} /></pre>`;
  const head = (words) => html`<p class="part-head">${words} <b>${plain(part.name, 120)}</b> <code>${plain(part.call_id ?? part.media_type, 60)}</code></p>`;
  if (part.type === 'text') return block(part.text);
  if (part.type === 'thinking') {
    return html`<details><summary>thinking · ${bytes(part.bytes)}${part.encrypted ? ' · encrypted' : ''}</summary>${block(part.text)}</details>`;
  }
  if (part.type === 'call') return html`${head('⚙ call')}${block(pretty(part.text))}`;
  if (part.type === 'image') return html`<${Image} who=${who} number=${number} part=${part} />`;
  if (part.type === 'file') return head(`▤ file · ${bytes(part.bytes)}`);
  if (part.type === 'result') {
    return html`${head(part.failed ? '✕ failed result' : '↩ result')}
      ${part.parts.map((inner) => html`<${Part} part=${inner} who=${who} number=${number} find=${find} />`)}`;
  }
  return block(part.text);
}

export function MessageBody({ who, message, number, find = [] }) {
  const [whole, setWhole] = useState(null);
  const read = async () => setWhole(await getText(at(who, `/entries/${number}/whole`)));
  if (whole != null) return html`<pre tabindex="0"><${Text} value=${whole} most=${MOST_SHOWN} find=${find} /></pre>`;
  return html`${message.parts.map((part) => html`<${Part} part=${part} who=${who} number=${number} find=${find} />`)}
    ${message.cut && html`<p class="part-head">… cut at 64 kB of ${bytes(message.bytes)} <button onClick=${read}>show whole</button></p>`}`;
}

function Facts({ message, who }) {
  const speaker = message.results ? 'tool' : message.role;
  const words = [speaker, `${count(message.tokens)} tokens`, bytes(message.bytes), message.at ? date(message.at) : '', message.pinned && '⌖ pinned'];
  return html`<p class="facts">${words.filter(Boolean).join(' · ')}
    ${message.fold ? html` · <a href=${link.fold(who, message.fold)}>▼ folded in ${message.fold}</a>` : ''}</p>`;
}

// number: of a message, `F1/0` for a message of a fold, or `system`.
export function MessageDrawer({ who, number, said, show, close, find, more }) {
  const [secrets, setSecrets] = useState(false);
  const [planned, setPlanned] = useState(false);
  const path = at(who, `/entries/${encodeURIComponent(number).replace('%2F', '/')}`, secrets ? { show: 1 } : {});
  const from = useData(path, isAbout(who));
  const { canWrite, say } = usePage();
  const { pin, rewind } = useActions(who);
  const isNumber = typeof number === 'number';
  const step = (by, words) => html`<button onClick=${() => show(number + by)} disabled=${number + by < 1 || number + by > said}>${words}</button>`;
  const copy = async (message) => {
    await navigator.clipboard.writeText(await getText(at(who, `/entries/${number}/whole`)));
    say(`${message.handle} is copied.`);
  };
  const title = isNumber ? `Message #${number}` : number === 'system' ? 'System prompt' : `Message ${number}`;
  return html`<${Dialog} title=${title} kind="drawer" close=${close}>
    <${Loaded} from=${from} what="the message">${(message) => html`
      <${Facts} message=${message} who=${who} />
      <p class="buttons start">
        ${isNumber && [step(-1, '‹ before'), step(1, 'next ›')]}
        ${isNumber && canWrite && html`<button class=${message.folded ? 'primary' : ''} onClick=${() => pin(message.handle, !message.pinned)}>
            ${message.pinned ? 'unpin' : message.folded ? 'bring back' : 'pin'}</button>
          <button onClick=${() => rewind(message.handle, message.handle)}>rewind to here</button>`}
        ${isNumber && !message.folded && html`<button onClick=${() => setPlanned(true)}>plan fold of this</button>`}
        <button onClick=${() => copy(message)}>copy</button>${more}
        ${message.secrets > 0 && html`<button aria-pressed=${secrets} onClick=${() => setSecrets(!secrets)}>
          ${secrets ? 'hide' : 'show'} ${count(message.secrets)} secrets</button>`}
      </p>
      <div class="parts" key=${path}><${MessageBody} who=${who} message=${message} number=${number} find=${find} /></div>`}<//>
    ${planned && html`<${PlanDialog} who=${who} first=${number} last=${number} close=${() => setPlanned(false)} />`}
  <//>`;
}
