// The order of search results and the words beside their titles. Sphinx asks Scorer.score about every result;
// TEXTS, from search_texts.py, has the prose and the code of each page. Both count; a sentence of the prose is shown.
const PLACES = { "how-to": 6, guide: 4, course: 4, gallery: 0, reference: -2 };
const CHANGES = -6; // they name everything, and explain nothing
const EXPLAINED = 3; // what is in the prose, and not only in the code, as random_state=0 is everywhere

Scorer.score = (result) => {
  const [page, title, anchor, about, score] = result;
  const [prose, code] = TEXTS[page] ?? ["", ""];
  const folder = page.includes("/") ? page.split("/")[0] : "guide";
  const words = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const times = (word, text) => text.toLowerCase().split(word).length - 1;
  const found = words.map((word) => times(word, prose) + times(word, code));
  const named = !anchor && words.every((word) => times(word, title)); // the page is about it: shown from its start
  const rarest = words.filter((word) => times(word, prose)).sort((a, b) => times(a, prose) - times(b, prose))[0];
  const first = named || rarest === undefined ? 0 : prose.toLowerCase().indexOf(rarest);
  const explained = words.every((word) => times(word, prose)) ? EXPLAINED : 0;
  const bonus = page === "changelog" ? CHANGES : (PLACES[folder] ?? 0) + explained;
  const place = folder === "reference" ? `reference, ${page.split("/").pop()}` : folder;
  result[3] = about ?? `${place}: ${excerpt(prose, first)}`;
  return score + bonus + Math.min(5, Math.log2(1 + Math.min(...found)));
};

// Whole words around a place of a text: a sentence that is near its start is shown from its start.
const excerpt = (text, place) => {
  const from = place < 90 ? 0 : text.indexOf(" ", place - 90) + 1;
  const to = text.lastIndexOf(" ", from + 200);
  return from + 200 >= text.length ? text.slice(from) : `${text.slice(from, to)} …`;
};

// Sphinx puts the words in brackets, after the title; here they are a line of their own.
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  const tidy = () => {
    for (const words of results.querySelectorAll("ul.search > li > span:not(.line)")) {
      words.firstChild.textContent = words.firstChild.textContent.replace(/^ \(/, "");
      words.lastChild.textContent = words.lastChild.textContent.replace(/\)$/, "");
      words.classList.add("line");
    }
  };
  if (!results) return;
  tidy(); // the first may be there already
  new MutationObserver(tidy).observe(results, { childList: true, subtree: true });
});
