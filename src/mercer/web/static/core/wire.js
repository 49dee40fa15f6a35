// How the page asks: one function, `ask(name, body)`. Over HTTP it is `fetch`; in a notebook it is a message of the widget.

/** What the server refused, with its sentence, remedy and place. */
export class Refusal extends Error {
  constructor(error, status) {
    super(error?.message ?? `The server answered ${status}.`);
    Object.assign(this, { code: error?.code ?? "failed", at: error?.at ?? null, remedy: error?.remedy ?? null, parameter: error?.parameter ?? null, status });
  }
}

/** Whether an error only says that a newer request took the place of this one. */
export const isStale = (error) => error.name === "AbortError" || error.code === "superseded";

/** A packet: four bytes of length, a JSON header, Float32 blocks; the arrays are views of the buffer, not copies. */
export function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  for (const [name, { shape, offset }] of Object.entries(header.arrays ?? {})) {
    const values = new Float32Array(buffer, 4 + size + offset, shape.reduce((a, b) => a * b, 1));
    arrays[name] = Object.assign(values, { shape });
  }
  return { header, arrays };
}

async function answer(reply) {
  const type = reply.headers.get("Content-Type") ?? "";
  if (!reply.ok) throw new Refusal(type.includes("json") ? (await reply.json()).error : null, reply.status);
  if (type.includes("json")) return reply.json();
  const file = /filename\*=utf-8''([^;]+)/i.exec(reply.headers.get("Content-Disposition") ?? "");
  return file ? { name: decodeURIComponent(file[1]), blob: await reply.blob() } : decode(await reply.arrayBuffer());
}

async function send(url, options) {
  try {
    return await answer(await fetch(url, { method: "POST", ...options }));
  } catch (error) {
    if (error instanceof TypeError) throw new Refusal({ code: "gone", message: "The server does not answer. It has stopped, or this page is older than it: start `mercer explore` again." }, 0);
    throw error;
  }
}

/** `ask` over HTTP, same origin only. */
export const overHttp = () => {
  const ask = (name, body, { signal } = {}) =>
    send(`/api/${name}`, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  ask.upload = (file) =>
    send(`/api/upload?name=${encodeURIComponent(file.name)}`, { headers: { "Content-Type": "application/octet-stream" }, body: file });
  return ask;
};

/** `ask` over the messages of a notebook's widget. */
export const overModel = (model) => {
  const waiting = new Map();
  let last = 0;
  model.on("msg:custom", (message, buffers) => {
    const { resolve, reject } = waiting.get(message.id) ?? {};
    if (!resolve) return;
    waiting.delete(message.id);
    const bytes = buffers?.[0] && (buffers[0].buffer ? buffers[0].buffer.slice(buffers[0].byteOffset, buffers[0].byteOffset + buffers[0].byteLength) : buffers[0]);
    const json = message.type === "json" ? JSON.parse(new TextDecoder().decode(bytes)) : null;
    if (message.status >= 400) reject(new Refusal(json?.error, message.status));
    else if (json) resolve(json);
    else if (message.type === "file") resolve({ name: message.name, blob: new Blob([bytes]) });
    else resolve(decode(bytes));
  });
  const ask = (name, body, { signal, buffers = [] } = {}) => new Promise((resolve, reject) => {
    const id = ++last;
    waiting.set(id, { resolve, reject });
    signal?.addEventListener("abort", () => {
      waiting.delete(id);
      reject(new DOMException("A newer request took its place.", "AbortError"));
    });
    model.send({ id, ask: name, body }, undefined, buffers);
  });
  ask.upload = async (file) => ask("upload", { name: file.name }, { buffers: [await file.arrayBuffer()] });
  return ask;
};
