"use strict";
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const cases = [...document.querySelectorAll(".case")];
  const texts = new Map();
  const textOf = (each) => {
    if (!texts.has(each)) texts.set(each, each.textContent.toLowerCase());
    return texts.get(each);
  };
  const FOLDED = 15; // cases of a function that are shown at first
  const visible = () => cases.filter((each) => !each.hidden);
  const summary = (each) => each.querySelector("summary");
  const field = (name) => form.elements.namedItem(name);

  // The state of the page stands in its address: a link shows what its sender saw.
  const state = new URLSearchParams(location.hash.slice(1));
  const keep = (name, value) => {
    if (value) state.set(name, value); else state.delete(name);
    history.replaceState(null, "", `#${state}`);
  };

  const filter = () => {
    const show = field("show").value;
    const value = field("value") ? field("value").value : "";
    const text = field("text").value.toLowerCase();
    const isFiltered = show || value || text;
    for (const each of cases) {
      const moves = each.dataset.move.split(" ");
      each.hidden = (show && !moves.includes(show))
        || (value && !JSON.parse(each.dataset.values).includes(value))
        || (text && !textOf(each).includes(text));
    }
    const count = visible().length;
    for (const one of document.querySelectorAll(".function")) {
      const own = [...one.querySelectorAll(".case:not([hidden])")];
      one.hidden = !own.length;
      const late = isFiltered || one.dataset.all ? [] : own.slice(FOLDED);
      for (const each of late) each.hidden = true;
      const more = one.querySelector(".more");
      more.hidden = !late.length;
      more.textContent = `Show ${late.length} more cases`;
    }
    document.getElementById("shown").textContent = `${count} of ${cases.length} cases`;
  };

  const unfold = (one) => {
    one.dataset.all = "yes";
    filter();
  };
  for (const one of document.querySelectorAll(".function")) {
    one.querySelector(".more").addEventListener("click", () => unfold(one));
  }

  form.addEventListener("input", (event) => {
    filter();
    keep(event.target.name, event.target.value);
  });
  form.addEventListener("submit", (event) => event.preventDefault());

  const go = (step) => {
    const shown = visible();
    const at = shown.findIndex((each) => each.contains(document.activeElement));
    const next = shown[at < 0 ? (step > 0 ? 0 : shown.length - 1) : at + step];
    if (next) {
      summary(next).focus();
      next.scrollIntoView({ block: "center" });
    }
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input[type=search], select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") go(1);
    if (event.key === "k") go(-1);
  });

  for (const each of cases) {
    each.firstElementChild.addEventListener("toggle", (event) => {
      const id = summary(each).id;
      if (event.target.open) keep("case", id);
      else if (state.get("case") === id) keep("case", "");
    });
  }
  addEventListener("beforeprint", () => {
    document.querySelectorAll(".function").forEach(unfold);
    for (const each of document.querySelectorAll("details")) each.open = true;
  });

  for (const name of ["show", "value", "text"]) {
    if (state.get(name) && field(name)) field(name).value = state.get(name);
  }
  filter();
  // not getElementById: a case of a score table may be called as a part of the page is
  const opened = cases.map(summary).find((each) => each.id === state.get("case"));
  if (opened) {
    if (opened.closest(".case").hidden) unfold(opened.closest(".function"));
    opened.parentElement.open = true;
    opened.scrollIntoView({ block: "center" });
  }
})();
