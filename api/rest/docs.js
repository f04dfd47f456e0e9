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

function operation(doc, path, method, op) {
  const box = el("details");
  const head = el("summary");
  head.append(el("span", method.toUpperCase(), `method ${method}`), el("code", path), el("span", op.summary, "about"));
  const inside = el("div");
  if (op.description) inside.append(el("p", op.description));
  if (op.parameters.length) {
    const table = el("table");
    for (const p of op.parameters) {
      const row = el("tr");
      row.append(el("td", p.name), el("td", p.in), el("td", p.schema.type), el("td", p.description));
      table.append(row);
    }
    inside.append(table);
  }
  if (op.requestBody) inside.append(...body(doc, "Takes", op.requestBody.content));
  for (const [status, r] of Object.entries(op.responses)) {
    if (status !== "default") inside.append(...body(doc, status, r.content));
  }
  box.append(head, inside);
  box.dataset.find = `${method} ${path} ${op.summary}`.toLowerCase();
  return box;
}

async function show() {
  const main = document.getElementById("operations");
  const doc = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = `${doc.info.version} · ${doc.info.description}`;
  const sections = new Map();
  for (const [path, item] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(item)) {
      const tag = op.tags[0];
      if (!sections.has(tag)) sections.set(tag, [el("h2", tag)]);
      sections.get(tag).push(operation(doc, path, method, op));
    }
  }
  main.replaceChildren(...[...sections.values()].flat());
  document.getElementById("find").addEventListener("input", (e) => {
    const want = e.target.value.toLowerCase();
    for (const box of main.querySelectorAll("details")) box.hidden = !box.dataset.find.includes(want);
  });
}

show().catch((e) => document.getElementById("operations").replaceChildren(el("p", String(e))));
