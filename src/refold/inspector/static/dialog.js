// Dialogs and the drawer beside a list; the browser's own <dialog> keeps the focus inside and gives it back.
import { html, useLayoutEffect, useRef } from './vendor/htm-preact.js';

export function Dialog({ title, close, kind = 'box', children }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    const node = element.current;
    node.showModal();
    return () => {
      node.close();
      before?.focus?.({ preventScroll: true });
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  const leave = (event) => event.target === element.current && close(); // a click beside it
  return html`<dialog ref=${element} class=${kind} aria-label=${title} onCancel=${cancel} onClick=${leave}>
    <div class="dialog-inner">
      <header><h2>${title}</h2><button class="quiet" aria-label="Close" onClick=${close}>✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

// One question before a change: what it does and what it costs.
export function Confirm({ title, children, yes, act, close, busy, error }) {
  return html`<${Dialog} title=${title} close=${close}>
    <div class="question">${children}</div>
    ${error && html`<p class="problem" role="alert">✕ ${error}</p>`}
    <p class="buttons">
      <button onClick=${close}>Cancel</button>
      <button class="primary" autofocus disabled=${busy} onClick=${act}>${busy ? 'Working …' : yes}</button>
    </p>
  <//>`;
}
