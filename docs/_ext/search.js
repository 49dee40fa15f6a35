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
  const from = text.indexOf(" ", Math.max(first - 90, 0)) + 1;
  const place = folder === "reference" ? `reference, ${page.split("/").pop()}` : folder;
  result[3] = about ?? `${place}: ${first < 0 ? text.slice(0, 200) : text.slice(from, from + 200)} …`;
  return score + (PLACES[folder] ?? 0) + Math.min(5, Math.log2(1 + Math.min(...found)));
};
