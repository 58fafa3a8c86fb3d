// Numbers, sizes and times in the words of the terminal program.

const GROUPED = new Intl.NumberFormat('en-US');

export const count = (value) => (value == null ? '–' : GROUPED.format(value));

// 488 k, 6.1 k, 1.2 M: three digits are enough to compare; the title has them all.
export function short(value) {
  if (value == null) return '–';
  const size = Math.abs(value);
  if (size < 1000) return String(Math.round(value));
  const [unit, by] = size < 999_500 ? ['k', 1e3] : ['M', 1e6];
  const scaled = value / by;
  return `${Math.abs(scaled) < 9.95 ? scaled.toFixed(1) : Math.round(scaled)} ${unit}`;
}

export const percent = (ratio) => (ratio == null ? '–' : `${Math.round(ratio * 100)} %`);

export function money(dollars) {
  if (dollars == null) return '–';
  if (dollars === 0) return '$0';
  return dollars < 0.01 ? '< $0.01' : `$${dollars.toFixed(2)}`;
}

export function milliseconds(value) {
  if (value == null) return '–';
  if (value < 10) return `${value.toFixed(1)} ms`;
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

export function bytes(value) {
  if (value == null) return '–';
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1e3).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

export function ago(seconds, now = Date.now() / 1000) {
  if (seconds == null) return '–';
  const past = Math.max(0, now - seconds);
  if (past < 10) return 'now';
  if (past < 60) return `${Math.round(past)} s ago`;
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  if (past < 86400) return `${Math.round(past / 3600)} h ago`;
  return `${Math.round(past / 86400)} d ago`;
}

const two = (value) => String(value).padStart(2, '0');

export function clock(seconds) {
  if (seconds == null) return '–';
  const at = new Date(seconds * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function date(seconds) {
  if (seconds == null) return '–';
  const at = new Date(seconds * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(seconds)}`;
}

export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? '' : 's'}`;

// sqlite:…/sessions.db: the folders are in the title.
export const shortStore = (address) => address.replace(/^(sqlite|jsonl):.*[/\\](?=[^/\\]+$)/, '$1:…/');

// The beginning of an id that only a program remembers; other names stay as they are.
export const shortId = (name) => name.replace(/\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, '$1');

export const span = (first, last) => (first === last ? `#${first}` : `#${first}–#${last}`);
