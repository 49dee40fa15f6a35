// The order of search results and the words beside their titles. Sphinx asks Scorer.score about every result;
// TEXTS, from search_texts.py, has the text of each page.
const PLACES = { "how-to": 6, guide: 4, course: 4, gallery: 0, reference: -2 };

Scorer.score = (result) => {
  const [page, , , about, score] = result;
  const text = TEXTS[page] ?? "";
  const folder = page.includes("/") ? page.split("/")[0] : "guide";
  const words = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.map((word) => text.toLowerCase().split(word).length - 1); // how often each is there
  const first = text.toLowerCase().indexOf(words[found.indexOf(Math.max(...found))]);
  const place = folder === "reference" ? `reference, ${page.split("/").pop()}` : folder;
  result[3] = about ?? `${place}: ${excerpt(text, first)}`;
  return score + (PLACES[folder] ?? 0) + Math.min(5, Math.log2(1 + Math.min(...found)));
};

// Whole words around a place of a text: a sentence that is near its start is shown from its start.
const excerpt = (text, place) => {
  const from = place < 90 ? 0 : text.indexOf(" ", place - 90) + 1;
  const to = text.lastIndexOf(" ", from + 200);
  return from + 200 >= text.length ? text.slice(from) : `${text.slice(from, to)} …`;
};

// Sphinx puts the words in brackets, after the title; here they are a line of their own.
const unbracket = (words) => {
  words.firstChild.textContent = words.firstChild.textContent.replace(/^ \(/, "");
  words.lastChild.textContent = words.lastChild.textContent.replace(/\)$/, "");
};
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (!results) return;
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes)
      for (const node of addedNodes) if (node.matches?.("ul.search > li")) node.querySelectorAll(":scope > span").forEach(unbracket);
  }).observe(results, { childList: true, subtree: true });
});
