// Runs before the first paint: the system's theme unless one was chosen, and the browser's zone.
(function () {
  "use strict";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function follow() {
    if (root.dataset.theme === "auto") {
      root.dataset.bsTheme = dark.matches ? "dark" : "light";
      root.classList.toggle("dark-mode", dark.matches); // what Swagger UI goes by
    }
  }
  follow();
  dark.addEventListener("change", follow);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.split("; ").includes("zone=" + zone)) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = "zone=" + zone + "; path=/; max-age=31536000; SameSite=Lax" + secure;
  }
})();
