"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Texts are compressed, and unpacked when they are first shown.
const unpacked = new Map();
async function unpack(number) {
  if (!unpacked.has(number)) {
    const bytes = Uint8Array.from(atob(data.texts[number]), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    unpacked.set(number, await new Response(stream).text());
  }
  return unpacked.get(number);
}
async function show(pre, number) {
  pre.dataset.number = number;
  const text = await unpack(number).catch(() => "This browser cannot unpack the text (DecompressionStream).");
  if (pre.dataset.number === String(number)) pre.textContent = text;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// One graph at a time.
const graphTabs = all("#graphs button");
function selectGraph(number) {
  graphTabs.forEach((tab, k) => tab.setAttribute("aria-selected", k === number));
  all(".of-graph").forEach((section, k) => (section.hidden = k !== number));
  all(".of-graph")[number] && all(".canvas:not([hidden])", all(".of-graph")[number]).forEach(fit);
}
graphTabs.forEach((tab, k) => tab.addEventListener("click", () => selectGraph(k)));

// Tables sort by a click on a head; numbers by what data-value says.
for (const table of all("table.sorts")) {
  all("th", table).forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const isDown = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending"
        : head.classList.contains("number");
      all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
        return isDown ? -order : order;
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
for (const search of all("input[type=search]")) {
  const rows = all("tbody tr", search.closest("section").querySelector("table"));
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    rows.forEach((row) => (row.hidden = !row.textContent.toLowerCase().includes(wanted)));
  });
}

// The picture: drag to move, wheel with Ctrl or buttons to zoom.
const views = new Map();
function fit(canvas) {
  const svg = canvas.querySelector("svg");
  const [, , width, height] = (svg.dataset.whole ??= svg.getAttribute("viewBox")).split(" ").map(Number);
  const box = canvas.getBoundingClientRect();
  if (!box.width) return;
  // As wide as the picture, but no larger than life and no smaller than can be read.
  const scale = Math.min(1, Math.max(box.width / width, 0.72));
  const shown = { w: box.width / scale, h: box.height / scale };
  canvas.style.height = Math.min(640, Math.max(160, height * scale + 2)) + "px";
  shown.h = Math.min(640, Math.max(160, height * scale + 2)) / scale;
  views.set(canvas, { x: (width - shown.w) / 2, y: 0, ...shown });
  apply(canvas);
}
function apply(canvas) {
  const v = views.get(canvas);
  canvas.querySelector("svg").setAttribute("viewBox", `${v.x} ${v.y} ${v.w} ${v.h}`);
}
function zoom(canvas, factor, at = { x: 0.5, y: 0.5 }) {
  const v = views.get(canvas);
  const [w, h] = [v.w * factor, v.h * factor];
  views.set(canvas, { x: v.x + (v.w - w) * at.x, y: v.y + (v.h - h) * at.y, w, h });
  apply(canvas);
}
for (const canvas of all(".canvas")) {
  let from = null;
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => { from = event; moved = 0; });
  canvas.addEventListener("pointermove", (event) => {
    if (!from || !(event.buttons & 1)) return;
    const v = views.get(canvas);
    const scale = v.w / canvas.clientWidth;
    moved += Math.abs(event.clientX - from.clientX) + Math.abs(event.clientY - from.clientY);
    if (moved > 4) { canvas.classList.add("held"); canvas.setPointerCapture(event.pointerId); }
    views.set(canvas, { ...v, x: v.x - (event.clientX - from.clientX) * scale,
      y: v.y - (event.clientY - from.clientY) * scale });
    from = event;
    apply(canvas);
  });
  const release = () => { from = null; canvas.classList.remove("held"); };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    const v = views.get(canvas);
    const box = canvas.getBoundingClientRect();
    event.preventDefault();
    if (event.ctrlKey || event.metaKey)
      return zoom(canvas, Math.exp(event.deltaY / 300), { x: (event.clientX - box.left) / box.width,
        y: (event.clientY - box.top) / box.height });
    const height = canvas.querySelector("svg").dataset.whole.split(" ")[3];
    const y = Math.min(Math.max(v.y + event.deltaY * v.w / box.width, 0), Math.max(0, height - v.h));
    // At the end of the picture the page moves on.
    if (y === v.y) window.scrollBy(0, event.deltaY);
    views.set(canvas, { ...v, x: v.x + event.deltaX * v.w / box.width, y });
    apply(canvas);
  }, { passive: false });
  const choose = (box) => {
    if (!box || moved > 4) return;
    const graph = canvas.closest(".of-graph");
    all(".box", graph).forEach((other) => other.classList.toggle("chosen", other === box));
    showStep(graph, Number(box.dataset.step));
  };
  canvas.addEventListener("click", (event) => choose(event.target.closest(".box")));
  canvas.addEventListener("keydown", (event) => event.key === "Enter" && choose(event.target.closest(".box")));
}
for (const button of all("[data-zoom]"))
  button.addEventListener("click", () => {
    const canvas = button.closest("section").querySelector(".canvas:not([hidden])");
    button.dataset.zoom === "fit" ? fit(canvas) : zoom(canvas, Number(button.dataset.zoom));
  });
for (const button of all("[data-expand]"))
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", isOpen);
    all(".canvas", button.closest("section")).forEach((canvas, k) => {
      canvas.hidden = (k === 1) !== isOpen;
      if (!canvas.hidden) fit(canvas);
    });
  });

// A kernel or a call, with its stages side by side.
function showStep(graph, number) {
  const facts = data.graphs[Number(graph.dataset.graph)];
  const step = facts.steps[number];
  if (step.kernel !== undefined) return showKernel(graph, step.kernel);
  const panel = graph.querySelector(".kernel");
  panel.hidden = false;
  panel.replaceChildren(element("h3", {}, step.name), element("p", { class: "dim" }, step.facts), sources(step.sources));
}
function sources(lines) {
  const list = element("ul", { class: "sources" });
  for (const line of lines) {
    const cut = line.indexOf(": ");
    list.append(element("li", {}, element("span", {}, line.slice(0, cut).split("/").pop() + "  "), line.slice(cut + 2)));
  }
  return list;
}
function pane(stages, chosen) {
  const tabs = element("div", { class: "tabs", role: "tablist" });
  const pre = element("pre", { tabindex: "0" });
  stages.forEach(([name, text], k) => {
    const tab = element("button", { role: "tab" }, name);
    tab.addEventListener("click", () => {
      all("button", tabs).forEach((other) => other.setAttribute("aria-selected", other === tab));
      show(pre, text);
    });
    tabs.append(tab);
    if (k === chosen) tab.click();
  });
  return element("div", { class: "pane" }, tabs, pre);
}
function showKernel(graph, number) {
  const kernel = data.graphs[Number(graph.dataset.graph)].kernels[number];
  const panel = graph.querySelector(".kernel");
  panel.hidden = false;
  const children = [element("h3", {}, kernel.name), element("p", { class: "dim" }, kernel.facts), sources(kernel.sources)];
  if (kernel.schedule) children.push(element("p", { class: "mono dim" }, kernel.schedule));
  if (kernel.stages.length) {
    const names = kernel.stages.map(([name]) => name);
    const right = Math.max(0, names.indexOf("tile dialect"));
    const panes = element("div", { class: "panes" }, pane(kernel.stages, 0), pane(kernel.stages, right));
    const details = element("details", {}, element("summary", {}, `stages: ${names.join(", ")}`), panes);
    children.push(details);
  }
  panel.replaceChildren(...children);
  all("tr[data-kernel]", graph).forEach((row) => row.classList.toggle("chosen", Number(row.dataset.kernel) === number));
}
for (const row of all("tr[data-kernel]"))
  row.addEventListener("click", () => {
    const graph = row.closest(".of-graph");
    showKernel(graph, Number(row.dataset.kernel));
    graph.querySelector(".kernel").scrollIntoView({ block: "nearest" });
  });
for (const details of all("details[data-text]"))
  details.addEventListener("toggle", () => details.open && show(details.querySelector("pre"), Number(details.dataset.text)));
if (graphTabs.length) selectGraph(0);
window.addEventListener("resize", () => all(".of-graph:not([hidden]) .canvas:not([hidden])").forEach(fit));
