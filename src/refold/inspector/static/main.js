// Start of the page: the frame around the views, the question before a change, and the notice after it.
import { html, render, useEffect, useMemo, useRef, useState } from './vendor/htm-preact.js';
import { ROOT, useData } from './api.js';
import { Confirm } from './dialog.js';
import { shortStore } from './format.js';
import { focusSearch, Help, useKeys } from './keys.js';
import { startLive, useConnection } from './live.js';
import { Page } from './page.js';
import { go, link, useRoute } from './router.js';
import { Empty, Guard } from './states.js';
import { plain } from './text.js';
import { FoldView } from './views/fold.js';
import { RecallView } from './views/recall.js';
import { SessionView } from './views/session.js';
import { SessionsView } from './views/sessions.js';
import { TrafficView } from './views/traffic.js';
import { WindowView } from './views/window.js';

const VIEWS = {
  sessions: SessionsView, session: SessionView, window: WindowView, fold: FoldView, recall: RecallView, traffic: TrafficView,
};
const CONNECTIONS = {
  connecting: ['○', 'connecting'], live: ['●', 'live'], reconnecting: ['◌', 'reconnecting'],
};
const MODES = {
  notify: 'what other processes do comes at once, by notices of the store', poll: 'what other processes do comes within two seconds',
};
const NOTICE_MS = 8000;

function Unknown() {
  return html`<${Empty} title="There is no such view">The <a href=${link.sessions()}>sessions</a> are a good place to begin.<//>`;
}

function Top({ route, about, help }) {
  const [connection, mode] = useConnection();
  const [sign, word] = CONNECTIONS[connection];
  const place = { session: 'sessions', window: 'sessions', fold: 'sessions' }[route.view] ?? route.view;
  const item = (view, address) => html`<a href=${address} aria-current=${place === view ? 'page' : undefined}>${view}</a>`;
  return html`<header class="top">
    <a class="brand" href=${link.sessions()}>Refold</a>
    <nav aria-label="Views">
      ${item('sessions', link.sessions())}${about?.gateway !== false && item('traffic', link.traffic())}${item('recall', link.recall())}
    </nav>
    <span class="store" title=${plain(about?.store ?? '')}>${plain(shortStore(about?.store ?? ''))}</span>
    ${about?.read_only && html`<span class="badge" title="Started with --inspect-read-only">read-only</span>`}
    <span class=${`connection ${connection}`} role="status" title=${MODES[mode]}>${sign} ${word}</span>
    <button class="quiet" aria-label="Keys" title="Keys (?)" onClick=${help}>?</button>
  </header>`;
}

function Question({ question, close, say }) {
  const [state, setState] = useState({ busy: false, error: '' });
  const act = async () => {
    setState({ busy: true, error: '' });
    try {
      const made = await question.act();
      close();
      say(question.done(made));
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
  };
  return html`<${Confirm} title=${question.title} yes=${question.yes} act=${act} close=${close} ...${state}>
    ${question.lines.filter(Boolean).map((line) => html`<p>${line}</p>`)}
  <//>`;
}

function useNotice() {
  const [notice, setNotice] = useState('');
  const timer = useRef(null);
  const say = (text) => {
    clearTimeout(timer.current);
    setNotice(plain(text));
    timer.current = setTimeout(() => setNotice(''), NOTICE_MS);
  };
  return [notice, say];
}

function App() {
  const route = useRoute();
  const about = useData('about').data;
  const [help, setHelp] = useState(false);
  const [question, setQuestion] = useState(null);
  const [notice, say] = useNotice();
  const page = useMemo(() => ({ about, ask: setQuestion, say, canWrite: about != null && !about.read_only }), [about]);
  const View = VIEWS[route.view] ?? Unknown;
  const who = route.name == null ? null : { name: route.name, tenant: route.params.tenant ?? '' };
  useKeys({
    '?': () => setHelp(true),
    '/': () => focusSearch() || go(link.recall()),
    s: () => go(link.sessions()),
    t: () => go(link.traffic()),
    r: () => go(link.recall()),
  });
  useEffect(() => {
    document.title = `${route.name ? `${plain(route.name, 60)} · ` : ''}${route.view} · Refold`;
  }, [route.view, route.name]);
  return html`<${Page.Provider} value=${page}>
    <${Top} route=${route} about=${about} help=${() => setHelp(true)} />
    <main class=${route.view}>
      <${Guard} key=${route.step}><${View} route=${route} who=${who} /><//>
    </main>
    <p class="notice" role="status">${notice}</p>
    ${help && html`<${Help} close=${() => setHelp(false)} />`}
    ${question && html`<${Question} question=${question} close=${() => setQuestion(null)} say=${say} />`}
  <//>`;
}

if (location.search) history.replaceState(null, '', location.pathname + location.hash); // the token leaves the address bar
render(html`<${App} />`, document.getElementById('app'));
startLive(`${ROOT}events`);
