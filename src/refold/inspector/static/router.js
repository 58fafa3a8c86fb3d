// Addresses of the views: `#/`, `#/s/NAME`, `#/s/NAME/window`, `#/s/NAME/fold/ID`, `#/recall?q=`, `#/traffic`.
import { useEffect, useState } from './vendor/htm-preact.js';

// A name as a part of a path. Half of a surrogate pair has no UTF-8, and browsers walk up at `.` and `..`: the
// server reads such letters as %uXXXX.
export const encodeName = (name) =>
  name.split(/(^\.{1,2}$|[\ud800-\udfff])/u).map((part, at) => (at % 2
    ? part.split('').map((letter) => `%u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
    : encodeURIComponent(part))).join('');

const safeDecode = (part) => {
  try {
    return part.split(/%u([0-9a-f]{4})/).map((piece, at) => (at % 2
      ? String.fromCharCode(parseInt(piece, 16))
      : decodeURIComponent(piece))).join('');
  } catch {
    return part; // an address that somebody typed
  }
};

export function parseRoute(hash) {
  const [path, query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s);
  const parts = path.split('/').filter(Boolean).map(safeDecode);
  const params = Object.fromEntries(new URLSearchParams(query));
  const [head, name, view, id] = parts;
  if (!head) return { view: 'sessions', params };
  if (head === 's' && name && !view) return { view: 'session', name, params };
  if (head === 's' && name && view === 'window') return { view: 'window', name, params };
  if (head === 's' && name && view === 'fold' && id) return { view: 'fold', name, id, params };
  if (head === 'recall' || head === 'traffic') return { view: head, params };
  return { view: 'unknown', params };
}

const query = (params) => {
  const set = Object.entries(params).filter(([, value]) => value != null && value !== '');
  return set.length ? `?${new URLSearchParams(set)}` : '';
};

// who: {name, tenant}; the tenant is "" but for the operator of a gateway with several.
const sessionPath = (who, rest, params = {}) =>
  `#/s/${encodeName(who.name)}${rest}${query({ tenant: who.tenant, ...params })}`;

export const link = {
  sessions: (params = {}) => `#/${query(params)}`,
  session: (who, params = {}) => sessionPath(who, '', params),
  window: (who) => sessionPath(who, '/window'),
  fold: (who, id) => sessionPath(who, `/fold/${encodeURIComponent(id)}`),
  recall: (params = {}) => `#/recall${query(params)}`,
  traffic: (params = {}) => `#/traffic${query(params)}`,
};

export const go = (address) => {
  location.hash = address;
};

// Change the parameters of this address without a new step in the history.
export function keepParams(params) {
  const [path] = location.hash.split('?');
  history.replaceState(null, '', `${path || '#/'}${query(params)}`);
}

// step: counts the ways that were gone; each begins its view anew, also one that differs in its parameters alone.
export function useRoute() {
  const [place, setPlace] = useState({ hash: location.hash, step: 0 });
  useEffect(() => {
    const change = () => setPlace(({ step }) => ({ hash: location.hash, step: step + 1 }));
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return { ...parseRoute(place.hash), step: place.step };
}
