// Points by WebGL2: one context for all panels, drawn off the page and copied into each panel's own canvas.
// Browsers allow about sixteen contexts; one page with one of them never loses a panel to that limit.

const VERTEX = `#version 300 es
in vec2 place;           // data, minus its centre
in uvec4 look;           // colour, shape, 1 selected or 2 muted
uniform vec4 view;       // scale x, scale y, shift x, shift y: data to clip space
uniform float size;      // pixels
uniform uint turn;       // 0 draws all but selected rows, 1 those
flat out uint colour;
flat out uint shape;
flat out uint state;
void main() {
  colour = look.x; shape = look.y; state = look.z;
  bool mine = (look.z == 1u) == (turn == 1u);
  gl_Position = mine ? vec4(place * view.xy + view.zw, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = (look.z == 1u ? 1.35 : 1.0) * size + 2.0;
}`;

const FRAGMENT = `#version 300 es
precision highp float;   // as in the vertex shader, or the two do not link
precision highp int;
flat in uint colour;
flat in uint shape;
flat in uint state;
uniform sampler2D palette;
uniform float size;
uniform float alpha;
out vec4 paint;
float away(vec2 p, uint s) {                       // signed distance from the edge, in units of the radius
  vec2 q = abs(p);
  if (s == 1u) return max(q.x, q.y) - 0.82;                                          // square
  if (s == 2u) return max(q.x * 0.866 + p.y * 0.5, -p.y) - 0.55;                     // triangle
  if (s == 3u) return (q.x + q.y - 1.1) * 0.7071;                                    // diamond
  if (s == 4u) return max(min(q.x, q.y) - 0.3, max(q.x, q.y) - 1.0);                 // plus
  if (s == 5u) { vec2 r = abs(vec2(p.x + p.y, p.x - p.y)) * 0.7071; return max(min(r.x, r.y) - 0.3, max(r.x, r.y) - 1.05); }
  if (s == 6u) return abs(length(p) - 0.72) - 0.26;                                  // ring
  return length(p) - 0.95;
}
void main() {
  float radius = 0.5 * (state == 1u ? 1.35 : 1.0) * size;
  vec2 p = (gl_PointCoord - 0.5) * vec2(2.0, -2.0) * (radius + 1.0) / radius;
  float cover = clamp(0.5 - away(p, shape) * radius, 0.0, 1.0);
  if (cover <= 0.0) discard;
  float a = cover * (state == 2u ? 0.45 * alpha : state == 1u ? 1.0 : alpha);
  paint = vec4(texelFetch(palette, ivec2(int(colour), 0), 0).rgb * a, a);
}`;

function program(gl) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.bindAttribLocation(made, 0, "place");
  gl.bindAttribLocation(made, 1, "look");
  gl.linkProgram(made);
  return gl.getProgramParameter(made, gl.LINK_STATUS) ? made : null;
}

/** The shared brush, or null where WebGL2 is not to be had. `lost` is called when the context goes away. */
export function glBrush(lost) {
  const canvas = document.createElement("canvas");
  const gl = canvas.getContext("webgl2", { alpha: true, premultipliedAlpha: true, antialias: false, preserveDrawingBuffer: true });
  const made = gl && program(gl);
  if (!made) return null;
  canvas.addEventListener("webglcontextlost", (event) => {
    event.preventDefault();
    lost();
  });
  const at = Object.fromEntries(["view", "size", "turn", "alpha"].map((name) => [name, gl.getUniformLocation(made, name)]));
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  gl.useProgram(made);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);

  return {
    name: "WebGL2",
    cloud() {
      const array = gl.createVertexArray(), places = gl.createBuffer(), looks = gl.createBuffer();
      let m = 0;
      gl.bindVertexArray(array);
      gl.bindBuffer(gl.ARRAY_BUFFER, places);
      gl.enableVertexAttribArray(0);
      gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
      gl.bindBuffer(gl.ARRAY_BUFFER, looks);
      gl.enableVertexAttribArray(1);
      gl.vertexAttribIPointer(1, 4, gl.UNSIGNED_BYTE, 0, 0);
      const upload = (buffer, values) => {
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
      };
      return {
        place(xy) {
          upload(places, xy);
          m = xy.length / 2;
        },
        look: (bytes) => upload(looks, bytes),
        /** Draw into a rectangle (device pixels) of a 2D context, the data range x × y filling it. */
        draw(context, [left, top, width, height], [x0, x1], [y0, y1], { size, alpha, palette }) {
          if (!m || width < 1 || height < 1) return;
          if (canvas.width < width || canvas.height < height) Object.assign(canvas, { width: Math.max(canvas.width, width), height: Math.max(canvas.height, height) });
          gl.viewport(0, 0, width, height);
          gl.clearColor(0, 0, 0, 0);
          gl.clear(gl.COLOR_BUFFER_BIT);
          gl.bindTexture(gl.TEXTURE_2D, texture);
          gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, palette);
          const sx = 2 / (x1 - x0), sy = 2 / (y1 - y0);
          gl.uniform4f(at.view, sx, sy, -1 - x0 * sx, -1 - y0 * sy);
          gl.uniform1f(at.size, size);
          gl.uniform1f(at.alpha, alpha);
          gl.bindVertexArray(array);
          for (const turn of [0, 1]) {
            gl.uniform1ui(at.turn, turn);
            gl.drawArrays(gl.POINTS, 0, m);
          }
          context.drawImage(canvas, 0, canvas.height - height, width, height, left, top, width, height);
        },
      };
    },
  };
}
