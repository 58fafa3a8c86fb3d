// What is drawn on the meter by hand: the room as a line, and a sign with a label where something happened.

export const MARKS = {
  fold: ['▼', 'fold'],
  unfold: ['△', 'unfold'],
  overflow: ['✕', 'overflow'],
  'client-compaction': ['◇', "client's own"],
  model: ['◆', 'model change'],
  branch: ['⑂', 'branch'],
  checkpoint: ['⚑', 'checkpoint'],
};
const LABEL_GAP = 30; // CSS pixels between two labels
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
  ctx.fillText('room', bbox.left + 4 * devicePixelRatio, y - 4 * devicePixelRatio);
  ctx.restore();
}

export function drawMarks(plot, marks, stroke, text) {
  const { ctx, bbox } = plot;
  let free = -Infinity;
  ctx.save();
  ctx.textAlign = 'center';
  for (const mark of marks) {
    const x = plot.valToPos(Math.max(mark.n, plot.scales.x.min), 'x', true);
    if (x > bbox.left + bbox.width + 1) continue;
    ctx.strokeStyle = stroke;
    ctx.globalAlpha = 0.55;
    ctx.setLineDash(mark.kind === 'fold' ? [] : [3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (x - free < LABEL_GAP * devicePixelRatio) continue;
    free = x;
    ctx.fillStyle = mark.kind === 'fold' ? stroke : text;
    ctx.font = font(plot, 11);
    const label = mark.kind === 'model' ? '' : String(mark.label ?? '').slice(0, SHORT);
    ctx.fillText(`${MARKS[mark.kind]?.[0] ?? '•'}${label}`, x, bbox.top - 7 * devicePixelRatio);
  }
  ctx.restore();
}
