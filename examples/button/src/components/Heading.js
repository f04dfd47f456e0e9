import { h } from '../dom.js'

export function Heading({ text }) {
  return h('h1', { class: 'heading' }, text)
}
