// Light or dark: as the system says, unless the reader chose otherwise here. Loaded before anything is drawn, and no
// module, so that the page never flashes in the other colours.
(() => {
  const KEY = "ictrl-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const system = () => (dark.matches ? "dark" : "light");

  function remembered() {
    try {
      const theme = localStorage.getItem(KEY);
      return theme === "dark" || theme === "light" ? theme : null;
    } catch {
      return null; // storage is turned off: the choice lasts as long as the page
    }
  }

  function remember(theme) {
    try {
      // the system's own choice is not stored: the page then follows the system again
      if (theme === system()) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      /* as above */
    }
  }

  function show(theme) {
    root.dataset.theme = theme;
    document.getElementById("theme")?.setAttribute("aria-pressed", String(theme === "dark"));
  }

  show(remembered() ?? system());
  dark.addEventListener("change", () => show(remembered() ?? system()));
  addEventListener("DOMContentLoaded", () => {
    show(root.dataset.theme);
    document.getElementById("theme").addEventListener("click", () => {
      const theme = root.dataset.theme === "dark" ? "light" : "dark";
      remember(theme);
      show(theme);
    });
  });
})();
