"use strict";
(function () {
  var root = document.documentElement;
  var all = function (what, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(what));
  };
  root.classList.add("js");

  // Tabs: one panel at a time; arrows, Home and End move.
  var tabs = all("[role=tab]");
  function choose(tab, focus) {
    tabs.forEach(function (each) {
      var chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !chosen;
    });
    if (focus) { tab.focus(); }
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  tabs.forEach(function (tab, at) {
    tab.addEventListener("click", function () {
      choose(tab, false);
      try { history.replaceState(null, "", "#" + tab.getAttribute("aria-controls")); } catch (e) { /* not allowed here */ }
    });
    tab.addEventListener("keydown", function (event) {
      var to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) { return; }
      event.preventDefault();
      choose(tabs[(to + tabs.length) % tabs.length], true);
    });
  });
  var wanted = tabs.filter(function (tab) {
    return "#" + tab.getAttribute("aria-controls") === location.hash;
  })[0];
  choose(wanted || tabs[0], false);
  window.scrollTo(0, 0);

  // Light and dark.
  var theme = document.getElementById("theme");
  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function nameTheme() { theme.textContent = isDark() ? "Light" : "Dark"; }
  theme.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();

  // Save the facts as JSON.
  document.getElementById("save").addEventListener("click", function () {
    var facts = JSON.parse(document.getElementById("facts").textContent);
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(facts, null, 1)], { type: "application/json" }));
    link.download = "report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });

  // Open all folds for printing, and close them again.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = folded.concat(all("details:not([open])"));
    folded.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (each) { each.open = false; });
    folded = [];
  });

  // Shape functions: a button for each, and buttons for the previous and the next one.
  var pickers = all(".picker button");
  var shapes = all(".shape");
  function show(at) {
    pickers.forEach(function (each, k) { each.setAttribute("aria-pressed", String(k === at)); });
    shapes.forEach(function (each, k) { each.hidden = k !== at; });
  }
  function shown() {
    return pickers.findIndex(function (each) { return each.getAttribute("aria-pressed") === "true"; });
  }
  pickers.forEach(function (button, at) {
    button.addEventListener("click", function () { show(at); });
  });
  all("[data-step]").forEach(function (button) {
    button.addEventListener("click", function () {
      var next = shown() + Number(button.dataset.step);
      show((next + pickers.length) % pickers.length);
      pickers[shown()].scrollIntoView({ block: "nearest" });
    });
  });
  if (pickers.length && shapes.length) { show(0); }

  // Mark tables that are wider than the page.
  function measure() {
    all(".scroll").forEach(function (each) {
      each.classList.remove("scrolls");
      each.classList.toggle("scrolls", each.scrollWidth > each.clientWidth + 1);
    });
  }
  window.addEventListener("resize", measure);
  tabs.forEach(function (tab) { tab.addEventListener("click", measure); });
  all("details").forEach(function (each) { each.addEventListener("toggle", measure); });
  measure();

  // The table of queries: sort it by a column, filter it by name and value, open its rows.
  var table = document.getElementById("query-table");
  if (!table) { return; }
  var body = table.tBodies[0];
  var rows = all("tr", body);
  function cell(row, column) { return row.cells[column].dataset.value; }
  function compare(column, sign) {
    return function (a, b) {
      var x = cell(a, column), y = cell(b, column);
      if (x === "" || y === "") { return x === y ? 0 : x === "" ? 1 : -1; }
      var difference = Number(x) - Number(y);
      if (isNaN(difference)) { difference = x < y ? -1 : x > y ? 1 : 0; }
      return sign * difference;
    };
  }
  var heads = all("th", table.tHead);
  heads.forEach(function (head, column) {
    var button = head.querySelector("button");
    if (!button) { return; }
    button.addEventListener("click", function () {
      var up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.forEach(close);
      rows.sort(compare(column, up ? 1 : -1));
      rows.forEach(function (row) { body.appendChild(row); });
    });
  });
  var name = document.getElementById("query-name");
  var limit = document.getElementById("query-limit");
  var count = document.getElementById("query-count");
  function filter() {
    var part = name.value.trim().toLowerCase();
    var most = limit.value.trim() === "" ? Infinity : Number(limit.value);
    var shownRows = 0;
    rows.forEach(function (row) {
      var value = cell(row, Number(table.dataset.main));
      var fits = cell(row, 0).toLowerCase().indexOf(part) >= 0
        && (most === Infinity || (value !== "" && Number(value) <= most));
      if (!fits) { close(row); }
      row.hidden = !fits;
      shownRows += fits ? 1 : 0;
    });
    count.textContent = shownRows + " of " + rows.length + " shown";
  }

  // An opened query: its first rows with their largest contributions and their ranks by other models.
  var facts = JSON.parse(document.getElementById("facts").textContent);
  function element(tag, text, kind) {
    var made = document.createElement(tag);
    if (text !== undefined && text !== null) { made.textContent = String(text); }
    if (kind) { made.className = kind; }
    return made;
  }
  function line(cells, tag, parent) {
    var row = element("tr");
    cells.forEach(function (each) { row.appendChild(element(tag, each[0], each[1])); });
    parent.appendChild(row);
  }
  function opened(entry) {
    var list = entry.list, made = element("table"), head = element("thead"), rest = element("tbody");
    var others = facts.models.slice(1).map(function (model) { return ["rank by " + model.name, "n"]; });
    var why = list.why ? [["moved most by", ""]] : [];
    line([["rank", "n"], [facts.words.item, ""], ["grade", "n"], ["score", "n"]].concat(others, why), "th", head);
    list.document.forEach(function (document, k) {
      var ranks = list.others.map(function (each) { return [each[k], "n"]; });
      var told = list.why ? [[list.why[k].map(function (each) {
        return facts.queries.features[each[0]] + " " + (each[1] > 0 ? "+" : "\u2212") + Math.abs(each[1]);
      }).join(", "), "name"]] : [];
      line([[k + 1, "n"], [document, "name"], [list.grade[k], "n"], [list.score[k], "n"]].concat(ranks, told), "td", rest);
    });
    made.appendChild(head);
    made.appendChild(rest);
    return made;
  }
  function close(row) {
    var next = row.nextElementSibling;
    if (next && next.classList.contains("opened")) { next.remove(); }
    row.querySelector(".open").setAttribute("aria-expanded", "false");
  }
  rows.forEach(function (row) {
    var button = row.querySelector(".open");
    button.addEventListener("click", function () {
      if (button.getAttribute("aria-expanded") === "true") { close(row); return; }
      var entry = facts.queries.rows[Number(row.dataset.at)];
      var place = element("tr", null, "opened"), cell = element("td");
      cell.colSpan = row.cells.length;
      cell.appendChild(opened(entry));
      if (entry.rows > entry.list.document.length) {
        cell.appendChild(element("p", "The first " + entry.list.document.length + " of " + entry.rows + ".", "note"));
      }
      place.appendChild(cell);
      row.after(place);
      button.setAttribute("aria-expanded", "true");
      measure();
    });
  });
  name.addEventListener("input", filter);
  limit.addEventListener("input", filter);
  filter();
})();
