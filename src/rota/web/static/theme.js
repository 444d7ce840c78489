// Before anything is drawn: light or dark, as chosen here, else as the system says.
(() => {
  const chosen = localStorage.getItem("rota-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen || (dark ? "dark" : "light");
})();
