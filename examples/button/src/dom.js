// A component is a function that returns a tree of h(); create makes elements
// of it. Trees are plain data, so tests need no browser.

export function h(tag, props = {}, ...children) {
  return { tag, props, children }
}

export function create(node, document) {
  if (typeof node === 'string') return document.createTextNode(node)
  const element = document.createElement(node.tag)
  for (const [name, value] of Object.entries(node.props)) {
    if (typeof value === 'function') {
      element.addEventListener(name.slice('on'.length).toLowerCase(), value)
    } else {
      element.setAttribute(name, value)
    }
  }
  element.append(...node.children.map((child) => create(child, document)))
  return element
}
