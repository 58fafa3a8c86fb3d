// Addresses of the views: `#/`, `#/s/NAME`, `#/s/NAME/window`, `#/s/NAME/fold/ID`, `#/recall?q=`, `#/traffic`.
import { useEffect, useState } from './vendor/htm-preact.js';

const safeDecode = (part) => {
  try {
    return decodeURIComponent(part);
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
  `#/s/${encodeURIComponent(who.name)}${rest}${query({ tenant: who.tenant, ...params })}`;

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

export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const change = () => setHash(location.hash);
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return parseRoute(hash);
}
