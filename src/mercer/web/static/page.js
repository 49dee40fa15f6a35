// How the page begins in a browser: over HTTP, with its token out of the address bar.

import { ended, explore } from "./app.js";
import { overHttp } from "./core/wire.js";

const root = document.getElementById("explore");
history.replaceState(null, "", location.pathname + location.hash);

async function quit(session) {
  const { words } = await session.ask("shutdown", {}).catch((error) => ({ words: error.message }));
  ended(root, words);
}

const ask = overHttp();
explore(root, ask, { quit, address: true }).catch((error) => ended(root, error.message));
addEventListener("hashchange", () => location.reload());
