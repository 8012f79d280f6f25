// All listeners of the pages. Every page also works without this file.
(function () {
  "use strict";
  const SILENT_MS = 10000; // between two announcements
  const BACK_OFF_MS = 30000; // after a server that asks for patience
  let pausedUntil = 0;
  let announcedAt = 0;

  // A part that fetches itself rests while nobody looks, or while the server is busy.
  document.addEventListener("htmx:beforeRequest", function (event) {
    const polls = event.target.hasAttribute("data-poll");
    const isChoosing = polls && event.target.querySelector("input:checked");
    if (polls && (isChoosing || document.hidden || Date.now() < pausedUntil)) {
      event.preventDefault();
    }
  });
  document.addEventListener("htmx:responseError", function (event) {
    const status = event.detail.xhr.status;
    if (status === 429 || status === 503) {
      pausedUntil = Date.now() + BACK_OFF_MS;
    }
  });

  // A log stays where the reader is: at its end, or at the line that is being read.
  function logIn(part) {
    return part.matches && part.matches("[data-follow]") ? part.querySelector("pre") : null;
  }
  function isAtEnd(log) {
    return log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  }
  let logPlace = null; // null is the end
  document.addEventListener("htmx:beforeSwap", function (event) {
    const log = logIn(event.target);
    if (log) {
      const chosen = document.getSelection();
      logPlace = isAtEnd(log) ? null : log.scrollTop;
      event.detail.shouldSwap &&= chosen.isCollapsed || !log.contains(chosen.anchorNode);
    }
  });
  document.addEventListener("htmx:load", function (event) {
    const log = logIn(event.detail.elt);
    if (log) {
      log.scrollTop = logPlace === null ? log.scrollHeight : logPlace;
    }
  });
  document.addEventListener("DOMContentLoaded", function () {
    const log = document.querySelector("[data-follow] pre");
    if (log) {
      log.scrollTop = log.scrollHeight;
    }
  });

  // A part that says something new in data-say is read out, politely.
  document.addEventListener("htmx:beforeSwap", function (event) {
    const shown = event.target.dataset ? event.target.dataset.say : undefined;
    event.target.ownerDocument.lastSaid = shown;
  });
  document.addEventListener("htmx:load", function (event) {
    const say = event.detail.elt.dataset ? event.detail.elt.dataset.say : undefined;
    const now = Date.now();
    if (say && document.lastSaid && say !== document.lastSaid && now - announcedAt > SILENT_MS) {
      document.getElementById("status").textContent = say;
      announcedAt = now;
    }
  });

  // Menus close on Escape and when one clicks elsewhere; only one is open.
  function closeMenus(except) {
    document.querySelectorAll("details.menu[open]").forEach(function (menu) {
      if (menu !== except) {
        menu.open = false;
      }
    });
  }
  document.addEventListener("click", function (event) {
    closeMenus(event.target.closest("details.menu"));
  });
  document.addEventListener("keydown", function (event) {
    const menu = event.target.closest && event.target.closest("details.menu[open]");
    if (event.key === "Escape" && menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  // In a map one Tab enters, arrows move, and one Tab leaves.
  const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -8, ArrowDown: 8 };
  function rove(root) {
    root.querySelectorAll("[data-roving]").forEach(function (map) {
      map.querySelectorAll("a").forEach(function (link, place) {
        link.setAttribute("tabindex", place === 0 ? "0" : "-1");
      });
    });
  }
  document.addEventListener("keydown", function (event) {
    const map = event.target.closest && event.target.closest("[data-roving]");
    const step = STEPS[event.key];
    if (!map || !step) {
      return;
    }
    const links = Array.from(map.querySelectorAll("a"));
    const place = links.indexOf(event.target.closest("a"));
    const next = links[Math.min(links.length - 1, Math.max(0, place + step))];
    links[place].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    event.preventDefault();
  });
  document.addEventListener("htmx:load", function (event) {
    rove(event.detail.elt.parentElement || document);
  });
  // On narrow screens the navigation scrolls sideways: it starts where the reader is.
  function showPlace() {
    const here = document.querySelector(".rail [aria-current]");
    const rail = here && here.closest(".rail");
    if (rail && rail.scrollWidth > rail.clientWidth) {
      const space = rail.clientWidth - here.offsetWidth;
      rail.scrollLeft = here.getBoundingClientRect().left - rail.getBoundingClientRect().left - space / 2;
    }
  }
  document.addEventListener("DOMContentLoaded", function () {
    showPlace();
    rove(document);
    const answer = document.getElementById("form-errors") || document.getElementById("trial");
    if (answer) {
      answer.focus();
    }
  });

  // The clock of a simulated cluster goes on, in the zone in which the page was written.
  function tick() {
    const clock = document.querySelector("[data-clock-speed]");
    const time = clock && clock.querySelector("time");
    if (!time) {
      return;
    }
    const speed = Number(clock.dataset.clockSpeed);
    const shown = Date.parse(time.textContent.replace(" ", "T") + ":00Z");
    const start = shown + (Date.parse(time.dateTime) % 60000);
    const opened = Date.now();
    time.removeAttribute("title");
    setInterval(function () {
      if (!document.hidden) {
        const now = new Date(start + (Date.now() - opened) * speed);
        time.textContent = now.toISOString().slice(0, 16).replace("T", " ");
      }
    }, 1000);
  }
  document.addEventListener("DOMContentLoaded", tick);

  // Buttons that copy the text of an element are of no use without script.
  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("[data-copy]").forEach(function (button) {
      button.hidden = !navigator.clipboard;
    });
  });
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-copy]");
    if (button) {
      const text = document.getElementById(button.dataset.copy).textContent;
      navigator.clipboard.writeText(text).then(function () {
        button.textContent = button.dataset.done;
        document.getElementById("status").textContent = button.dataset.done;
      });
    }
  });

  // A slash leads to the search, where nobody is writing.
  document.addEventListener("keydown", function (event) {
    const search = document.getElementById("search");
    const isPlain = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey;
    const isWriting = event.target.closest("input, textarea, select, [contenteditable]");
    if (search && isPlain && !isWriting) {
      event.preventDefault();
      search.focus();
    }
  });

  // Lists with keys: j and k move, x chooses, a and r lead to the decision, ? says so.
  function focusRow(list, step) {
    const rows = Array.from(list.querySelectorAll("tbody tr[id]"));
    const here = rows.indexOf(document.activeElement.closest("tr"));
    const next = rows[Math.min(rows.length - 1, Math.max(0, here + step))];
    if (next) {
      next.querySelector("a").focus();
    }
  }
  function choose(row) {
    const tick = row && row.querySelector("input[type=checkbox]");
    if (tick) {
      tick.checked = !tick.checked;
    }
  }
  function decide(list, row, fragment) {
    if (fragment === "#approve" && list.querySelector("input:checked")) {
      document.getElementById("approve-chosen").click();
    } else if (row) {
      location.assign(row.querySelector("a").href + fragment);
    }
  }
  document.addEventListener("keydown", function (event) {
    const list = document.querySelector("[data-keys]");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const isWriting = event.target.closest("input:not([type=checkbox]), textarea, select, dialog[open]");
    if (!list || !isPlain || isWriting) {
      return;
    }
    const row = list.contains(document.activeElement) ? document.activeElement.closest("tbody tr") : null;
    const acts = {
      j: () => focusRow(list, 1),
      k: () => focusRow(list, -1),
      x: () => choose(row),
      a: () => decide(list, row, "#approve"),
      r: () => decide(list, row, "#id_offer-note"),
      "?": () => document.getElementById("keys-help").showModal(),
    };
    if (acts[event.key]) {
      event.preventDefault();
      acts[event.key]();
    }
  });
  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("[data-opens]").forEach(function (button) {
      button.hidden = false;
    });
    const named = location.hash && document.getElementById(location.hash.slice(1));
    if (named && named.matches("button, input, select, textarea")) {
      named.focus();
    }
  });
  document.addEventListener("click", function (event) {
    const button = event.target.closest("[data-opens]");
    if (button) {
      document.getElementById(button.dataset.opens).showModal();
    }
  });

  // A filter that changes applies itself; without script there is a button.
  document.addEventListener("change", function (event) {
    const form = event.target.closest("form[data-auto]");
    if (form) {
      form.requestSubmit();
    }
  });
})();
