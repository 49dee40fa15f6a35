// Names that the theme and the gallery leave out, for people who hear the page.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("nav summary:not([aria-label])")) {
    const link = toggle.closest("li")?.querySelector("a");
    toggle.setAttribute("aria-label", `Pages below ${link?.textContent.trim() ?? "this one"}`);
  }
  for (const button of document.querySelectorAll(".search-button-field[aria-label]")) {
    button.setAttribute("aria-label", button.textContent.replace(/\s+/g, " ").trim()); // on a phone its text is hidden
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent.trim()); // its text is not visible, the title is
  }
});
