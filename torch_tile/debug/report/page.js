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

// The picture scrolls: by wheel, by touch, by dragging with the mouse. Wheel with Ctrl or buttons zoom.
const scales = new Map();
function size(canvas, scale) {
  const svg = canvas.querySelector("svg");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  svg.style.width = width * scale + "px";
  svg.style.height = height * scale + "px";
  scales.set(canvas, scale);
}
function fit(canvas) {
  const width = Number(canvas.querySelector("svg").getAttribute("viewBox").split(" ")[2]);
  if (!canvas.clientWidth) return;
  // As wide as the picture, but no larger than life and no smaller than can be read.
  size(canvas, Math.min(1, Math.max(canvas.clientWidth / width, 0.9)));
  canvas.scrollTop = 0;
  // Where not all of it is seen, the first step is.
  const places = all(".box", canvas).map((box) => box.getBoundingClientRect());
  const first = places.reduce((a, b) => (b.top < a.top ? b : a), places[0]);
  if (first) canvas.scrollLeft += (first.left + first.right) / 2 - canvas.getBoundingClientRect().left - canvas.clientWidth / 2;
}
function zoom(canvas, factor, at = { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 }) {
  const [x, y] = [(canvas.scrollLeft + at.x) * factor, (canvas.scrollTop + at.y) * factor];
  size(canvas, scales.get(canvas) * factor);
  canvas.scrollTo(x - at.x, y - at.y);
}
for (const canvas of all(".canvas")) {
  let from = null;
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => { from = event.pointerType === "mouse" ? event : null; moved = 0; });
  canvas.addEventListener("pointermove", (event) => {
    if (!from || !(event.buttons & 1)) return;
    const [x, y] = [event.clientX - from.clientX, event.clientY - from.clientY];
    moved += Math.abs(x) + Math.abs(y);
    if (moved > 4) { canvas.classList.add("held"); canvas.setPointerCapture(event.pointerId); }
    canvas.scrollBy(-x, -y);
    from = event;
  });
  const release = () => { from = null; canvas.classList.remove("held"); };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(canvas, Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
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
  const panel = graph.querySelector(".panel");
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
  const panel = graph.querySelector(".panel");
  panel.hidden = false;
  const wasOpen = panel.querySelector("details")?.open;
  const children = [element("h3", {}, kernel.name), element("p", { class: "dim" }, kernel.facts), sources(kernel.sources)];
  if (kernel.schedule) children.push(element("p", { class: "mono dim" }, kernel.schedule));
  if (kernel.stages.length) {
    const names = kernel.stages.map(([name]) => name);
    const right = Math.max(0, names.indexOf("tile dialect"));
    const panes = element("div", { class: "panes" }, pane(kernel.stages, 0), pane(kernel.stages, right));
    const details = element("details", {}, element("summary", {}, `stages: ${names.join(", ")}`), panes);
    details.open = wasOpen ?? false;
    children.push(details);
  }
  panel.replaceChildren(...children);
  all("tr[data-kernel]", graph).forEach((row) => row.classList.toggle("chosen", Number(row.dataset.kernel) === number));
}
for (const row of all("tr[data-kernel]")) {
  const open = () => {
    const graph = row.closest(".of-graph");
    showKernel(graph, Number(row.dataset.kernel));
    graph.querySelector(".panel").scrollIntoView({ block: "nearest" });
  };
  row.addEventListener("click", open);
  row.addEventListener("keydown", (event) => event.key === "Enter" && open());
}
// A bar that is too short for its name says it below the timeline.
for (const lanes of all(".lanes"))
  lanes.addEventListener("click", (event) => {
    const name = event.target.closest("[title]")?.title;
    if (name) lanes.closest("section").querySelector(".picked").textContent = name;
  });
for (const details of all("details[data-text]"))
  details.addEventListener("toggle", () => details.open && show(details.querySelector("pre"), Number(details.dataset.text)));
if (graphTabs.length) selectGraph(0);
window.addEventListener("resize", () => all(".of-graph:not([hidden]) .canvas:not([hidden])").forEach(fit));
