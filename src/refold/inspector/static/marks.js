// What is drawn on the meter by hand: the room as a line, and a sign with a label where something happened.
import { plain } from './text.js';

export const MARKS = {
  fold: ['▼', 'fold'],
  unfold: ['△', 'unfold'],
  overflow: ['✕', 'overflow'],
  'client-compaction': ['◇', "client's own"],
  model: ['◆', 'model change'],
  branch: ['├', 'branch'],
  checkpoint: ['⚑', 'checkpoint'],
};
const LABEL_GAP = 5; // CSS pixels between two labels
const SHORT = 20; // characters of a label

const font = (plot, size) => `${size * devicePixelRatio}px system-ui, sans-serif`;

export function drawRoom(plot, room, stroke) {
  const { ctx, bbox } = plot;
  const y = plot.valToPos(room, 'y', true);
  if (y < bbox.top) return;
  ctx.save();
  ctx.strokeStyle = stroke;
  ctx.fillStyle = stroke;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = font(plot, 11);
  ctx.textAlign = 'left';
  const isAtTop = y - bbox.top < 16 * devicePixelRatio; // signs stand above the plot
  ctx.fillText('room', bbox.left + 4 * devicePixelRatio, y + (isAtTop ? 13 : -4) * devicePixelRatio);
  ctx.restore();
}

function drawLine(plot, x, stroke, dash) {
  const { ctx, bbox } = plot;
  ctx.strokeStyle = stroke;
  ctx.globalAlpha = 0.55;
  ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.globalAlpha = 1;
}

// Folds first: where there is no room for two labels, theirs is written; then the sign alone is tried.
export function drawMarks(plot, marks, stroke, text) {
  const { ctx, bbox } = plot;
  const gap = LABEL_GAP * devicePixelRatio;
  const taken = [];
  ctx.save();
  ctx.textAlign = 'center';
  ctx.font = font(plot, 11);
  for (const mark of [...marks].sort((a, b) => (b.kind === 'fold') - (a.kind === 'fold'))) {
    const x = plot.valToPos(Math.max(mark.n, plot.scales.x.min), 'x', true);
    if (x > bbox.left + bbox.width + 1) continue;
    drawLine(plot, x, stroke, mark.kind === 'fold' ? [] : [3, 3]);
    const sign = MARKS[mark.kind]?.[0] ?? '•';
    const label = mark.kind === 'model' ? '' : plain(mark.label, SHORT);
    for (const words of [sign + label, sign]) {
      const half = ctx.measureText(words).width / 2 + gap;
      if (taken.some(([from, to]) => x + half > from && x - half < to)) continue;
      taken.push([x - half, x + half]);
      ctx.fillStyle = mark.kind === 'fold' ? stroke : text;
      ctx.fillText(words, x, bbox.top - 7 * devicePixelRatio);
      break;
    }
  }
  ctx.restore();
}
