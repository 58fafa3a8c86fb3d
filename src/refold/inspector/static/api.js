// Requests to the server: JSON in, JSON out; an error is one sentence for a person.
import { useCallback, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { useLive } from './live.js';
import { encodeName } from './router.js';

export const ROOT = '/inspect/api/';

export class Failure extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function readFailure(response) {
  if (response.status === 401) return new Failure('Open the address that `refold serve` printed again.', 401);
  let message = `the server answered ${response.status}`;
  try {
    const body = await response.json();
    message = body.error?.message ?? body.error ?? message;
  } catch {
    // an answer without JSON has no sentence of its own
  }
  return new Failure(String(message), response.status);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(ROOT + path, { credentials: 'same-origin', cache: 'no-store', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure('the server cannot be reached; the page tries again', 0);
  }
  if (!response.ok) throw await readFailure(response);
  return response;
}

export const getJson = async (path, signal) => (await request(path, { signal })).json();
export const getText = async (path) => (await request(path)).text();
export const getBlob = async (path) => (await request(path)).blob();

export async function post(path, body = {}) {
  const headers = { 'content-type': 'application/json', 'x-refold-inspect': '1' };
  return (await request(path, { method: 'POST', headers, body: JSON.stringify(body) })).json();
}

// The address of something of a session; who: {name, tenant}.
export function at(who, rest = '', params = {}) {
  const query = new URLSearchParams(who.tenant ? { ...params, tenant: who.tenant } : params).toString();
  return `sessions/${encodeName(who.name)}${rest}${query && `?${query}`}`;
}

export const isAbout = (who) => (event) => event.kind === 'session' && event.name === who.name;

// {data, error, reload}: fetched again when an event concerns it; what was there stays until the new comes.
export function useData(path, concerns = () => false) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  const running = useRef(null);
  const load = useCallback(async () => {
    running.current?.abort();
    if (path == null) return;
    const mine = new AbortController();
    running.current = mine;
    try {
      const data = await getJson(path, mine.signal);
      if (running.current === mine) setState({ path, data, error: null });
    } catch (error) {
      if (error.name === 'AbortError' || running.current !== mine) return;
      setState((old) => ({ path, data: old.path === path ? old.data : null, error }));
    }
  }, [path]);
  useEffect(() => {
    load();
    return () => running.current?.abort();
  }, [load]);
  useLive((event) => (event.kind === 'reset' || concerns(event)) && load());
  const isMine = state.path === path;
  return { data: isMine ? state.data : null, error: isMine ? state.error : null, reload: load };
}

// A session: first without its sizes, so that its messages are there at once; they follow.
export function useSession(who) {
  const first = useData(at(who, '', { measure: 0 }));
  const whole = useData(first.data || first.error ? at(who) : null, isAbout(who));
  return { data: whole.data ?? first.data, error: whole.error ?? first.error, reload: whole.reload };
}
