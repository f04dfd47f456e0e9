// Shows /openapi.json. Everything from the document becomes text, never markup.
"use strict";

const el = (tag, text, cls) => {
  const e = document.createElement(tag);
  if (text) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};

// expand replaces references by what they name, once each on the way down.
function expand(doc, node, seen = []) {
  if (Array.isArray(node)) return node.map((n) => expand(doc, n, seen));
  if (node === null || typeof node !== "object") return node;
  if (node.$ref) {
    if (seen.includes(node.$ref)) return { $ref: node.$ref };
    const target = node.$ref.slice(2).split("/").reduce((at, key) => at && at[key], doc);
    return expand(doc, target, [...seen, node.$ref]);
  }
  return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, expand(doc, v, seen)]));
}

function body(doc, title, content) {
  const out = [];
  for (const [type, media] of Object.entries(content || {})) {
    out.push(el("h4", `${title}: ${type}`), el("pre", JSON.stringify(expand(doc, media.schema), null, 2)));
  }
  return out;
}

// prose makes an element of a text in which code stands between backticks.
function prose(tag, text) {
  const e = el(tag);
  (text || "").split("`").forEach((part, i) => e.append(i % 2 ? el("code", part) : part));
  return e;
}

// folded is what only some want to see, such as schemas.
function folded(title, parts) {
  const box = el("details"), inside = el("div");
  inside.append(...parts);
  box.append(el("summary", title), inside);
  return box;
}

function parameters(doc, list) {
  const table = el("table");
  for (const p of list) {
    const row = el("tr");
    const schema = expand(doc, p.schema);
    const kind = schema.enum ? schema.enum.join(" | ") : schema.type;
    const rest = schema.default === undefined ? "" : ` (default ${schema.default})`;
    row.append(el("td", p.name + (p.required ? " *" : "")), el("td", p.in), el("td", kind + rest), prose("td", p.description));
    table.append(row);
  }
  return table;
}

function failures(responses) {
  const table = el("table");
  for (const [status, r] of Object.entries(responses)) {
    if (status < "400" || status === "default") continue;
    const row = el("tr");
    row.append(el("td", status), prose("td", r.description));
    table.append(row);
  }
  return table;
}

function operation(doc, path, method, op) {
  const box = el("details", "", "operation");
  box.id = op.operationId;
  const head = el("summary");
  head.append(el("span", method.toUpperCase(), `method ${method}`), el("code", path), el("span", op.summary, "about"));
  const inside = el("div");
  inside.append(el("p", `${op.operationId}. ${op.description || ""}`));
  for (const sample of op["x-codeSamples"] || []) inside.append(el("pre", sample.source.replace(/http:\/\/127\.0\.0\.1:\d+/, location.origin), "curl"));
  if (op.parameters.length) inside.append(el("h4", "Parameters"), parameters(doc, op.parameters));
  if (op.requestBody) inside.append(folded("What it takes", body(doc, "body", op.requestBody.content)));
  for (const [status, r] of Object.entries(op.responses)) {
    if (status < "400" && r.content) inside.append(folded(`What it gives: ${status}`, [prose("p", r.description), ...body(doc, status, r.content)]));
    else if (status < "400") inside.append(prose("p", `${status}: ${r.description}`));
  }
  inside.append(folded("What may go wrong", [failures(op.responses)]));
  box.append(head, inside);
  box.dataset.find = `${method} ${path} ${op.summary} ${op.operationId}`.toLowerCase();
  return box;
}

// openNamed opens the operation that the address names: /docs#createThread.
function openNamed() {
  const box = document.getElementById(location.hash.slice(1));
  if (!box || !box.matches("details.operation")) return;
  box.open = true;
  box.scrollIntoView();
}

async function show() {
  const main = document.getElementById("operations");
  const doc = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = `${doc.info.version} · ${doc.info.description}`;
  const sections = new Map(); // in the document's order: what people use first comes first
  for (const tag of doc.tags) {
    const section = el("section");
    section.append(el("h2", tag.name), el("p", tag.description));
    sections.set(tag.name, section);
  }
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(item)) {
      sections.get(op.tags[0]).append(operation(doc, path, method, op));
    }
  }
  main.replaceChildren(...sections.values());
  main.addEventListener("toggle", (e) => {
    if (e.target.open && e.target.id) history.replaceState(null, "", `#${e.target.id}`);
  }, true);
  addEventListener("hashchange", openNamed);
  openNamed();
  document.getElementById("find").addEventListener("input", (e) => {
    const want = e.target.value.toLowerCase();
    for (const box of main.querySelectorAll("details.operation")) box.hidden = !box.dataset.find.includes(want);
    for (const section of sections.values()) section.hidden = !section.querySelector("details.operation:not([hidden])");
  });
}

show().catch((e) => document.getElementById("operations").replaceChildren(el("p", String(e))));
