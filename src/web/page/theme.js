// Light, dark, or as the system has it. Loaded before the page is drawn, so that it never flashes.
(() => {
  const key = "kubediff.theme";
  const apply = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  apply(localStorage.getItem(key));
  document.addEventListener("kubediff:theme", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    // Back to what the system has is back to following it.
    if ((next === "dark") === dark) localStorage.removeItem(key);
    else localStorage.setItem(key, next);
    apply(localStorage.getItem(key));
  });
})();
