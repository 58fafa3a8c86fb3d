// Entries of a session in pages of the server's size; the pages that were seen last are kept.
import { useEffect, useRef, useState } from './vendor/htm-preact.js';
import { at, getJson } from './api.js';

export const PAGE = 200;
const KEPT = 12; // pages in memory: 2,400 rows are about two megabytes
const pageOf = (number) => Math.floor((number - 1) / PAGE);

// version: of the session; a page that was read before it is read again, and shown until then.
export function usePages(who, version) {
  const [, redraw] = useState(0);
  const pages = useRef(new Map());
  const shown = useRef([]);
  const again = () => redraw((n) => n + 1);

  const load = async (page) => {
    const held = { version, rows: pages.current.get(page)?.rows ?? null };
    pages.current.delete(page);
    pages.current.set(page, held); // the newest stands last
    try {
      const { entries } = await getJson(at(who, '/entries', { first: page * PAGE + 1, last: (page + 1) * PAGE }));
      held.rows = new Map(entries.map((row) => [row.number, row]));
    } catch {
      if (pages.current.get(page) === held) pages.current.delete(page); // asked for again when it is scrolled to
    }
    while (pages.current.size > KEPT) pages.current.delete(pages.current.keys().next().value);
    again();
  };
  // numbers: of the messages that are on the screen
  const want = (numbers) => {
    shown.current = numbers;
    for (const page of new Set(numbers.map(pageOf))) {
      if (pages.current.get(page)?.version !== version) load(page);
    }
  };
  useEffect(() => want(shown.current), [version]);
  const get = (number) => pages.current.get(pageOf(number))?.rows?.get(number) ?? null;
  return { get, want };
}
