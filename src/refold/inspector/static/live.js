// One stream of events for the whole page: ids and counts only; views fetch what they show.
import { useEffect, useRef, useState } from './vendor/htm-preact.js';

const KINDS = ['session', 'traffic', 'reset'];
const GATHER_MS = 150; // many entries of one turn become one fetch
const RETRY_MS = 2000;

const listeners = new Set();
let state = 'connecting';
let mode = 'poll'; // how the server notices what other processes do
let waiting = new Map();
let timer = null;
let source = null;

function emit(event) {
  for (const listener of [...listeners]) listener.current(event);
}

function setState(next) {
  if (state === next) return;
  state = next;
  emit({ kind: 'state' });
}

function setMode(message) {
  mode = JSON.parse(message.data).live;
  emit({ kind: 'state' });
}

function flush() {
  timer = null;
  const events = [...waiting.values()];
  waiting = new Map();
  events.forEach(emit);
}

function take(kind, message) {
  let value = {};
  try {
    value = JSON.parse(message.data);
  } catch {
    return; // not one of ours
  }
  waiting.set(`${kind} ${value.tenant ?? ''} ${value.name ?? ''}`, { ...value, kind });
  timer ??= setTimeout(flush, GATHER_MS);
}

export function startLive(address) {
  source = new EventSource(address);
  source.onopen = () => setState('live');
  source.onerror = () => {
    setState('reconnecting');
    if (source.readyState === EventSource.CLOSED) setTimeout(() => startLive(address), RETRY_MS);
  };
  // The server compares from here on: what was fetched before may be older than that.
  source.addEventListener('hello', (message) => {
    setMode(message);
    emit({ kind: 'reset' });
  });
  source.addEventListener('live', setMode);
  for (const kind of KINDS) source.addEventListener(kind, (message) => take(kind, message));
}

export function useLive(listener) {
  const current = useRef(listener);
  current.current = listener;
  useEffect(() => {
    listeners.add(current);
    return () => listeners.delete(current);
  }, []);
}

// [state, mode]
export function useConnection() {
  const [now, setNow] = useState([state, mode]);
  useLive((event) => event.kind === 'state' && setNow([state, mode]));
  useEffect(() => setNow([state, mode]), []);
  return now;
}
