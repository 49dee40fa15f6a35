// Points by Canvas 2D: where there is no WebGL2 (virtual machines, remote desktops), and for pictures that are saved.

import { css } from "./colour.js";

/** One mark as a path of radius r about (x, y). */
export function mark(path, shape, x, y, r) {
  const q = r * 0.85;
  if (shape === 1) path.rect(x - q, y - q, 2 * q, 2 * q);
  else if (shape === 2) outline(path, [[x, y - 1.15 * r], [x + r, y + 0.6 * r], [x - r, y + 0.6 * r]]);
  else if (shape === 3) outline(path, [[x, y - 1.15 * r], [x + 1.15 * r, y], [x, y + 1.15 * r], [x - 1.15 * r, y]]);
  else if (shape === 4) bars(path, x, y, r, false);
  else if (shape === 5) bars(path, x, y, r, true);
  else if (shape === 6) {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
    path.moveTo(x + 0.45 * r, y);
    path.arc(x, y, 0.45 * r, 0, 2 * Math.PI, true);
  } else {
    path.moveTo(x + r, y);
    path.arc(x, y, r, 0, 2 * Math.PI);
  }
}

function outline(path, [first, ...rest]) {
  path.moveTo(...first);
  rest.forEach((point) => path.lineTo(...point));
  path.closePath();
}

function bars(path, x, y, r, turned) {
  const c = turned ? Math.SQRT1_2 : 1, s = turned ? Math.SQRT1_2 : 0, t = 0.32 * r;
  const corners = [[-t, -r], [t, -r], [t, -t], [r, -t], [r, t], [t, t], [t, r], [-t, r], [-t, t], [-r, t], [-r, -t], [-t, -t]];
  outline(path, corners.map(([u, v]) => [x + c * u - s * v, y + s * u + c * v]));
}

/** The brush of Canvas 2D: paths where marks can be told apart, squares of a pixel or two beyond that. */
export function flatBrush() {
  return {
    name: "Canvas2D",
    cloud() {
      let xy = new Float32Array(0), looks = new Uint8Array(0);
      return {
        place: (values) => (xy = values),
        look: (bytes) => (looks = bytes),
        draw(context, [left, top, width, height], [x0, x1], [y0, y1], { size, alpha, palette }) {
          const m = xy.length / 2, fine = m <= 20000;
          const px = width / (x1 - x0), py = height / (y1 - y0);
          for (const [state, opacity] of [[2, 0.45 * alpha], [0, alpha], [1, 1]]) {
            const groups = new Map(); // colour and shape → path
            for (let i = 0; i < m; i++) {
              if (looks[4 * i + 2] !== state) continue;
              const x = left + (xy[2 * i] - x0) * px, y = top + height - (xy[2 * i + 1] - y0) * py;
              if (x < left || x > left + width || y < top || y > top + height) continue;
              const key = looks[4 * i] * 8 + looks[4 * i + 1];
              let path = groups.get(key);
              if (!path) groups.set(key, (path = new Path2D()));
              if (fine) mark(path, looks[4 * i + 1], x, y, (size / 2) * (state === 1 ? 1.35 : 1));
              else path.rect(x - size / 3, y - size / 3, size / 1.5, size / 1.5);
            }
            for (const [key, path] of groups) {
              context.fillStyle = css(palette, key >> 3, opacity);
              context.fill(path);
            }
          }
        },
      };
    },
  };
}
