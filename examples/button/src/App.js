import { h } from './dom.js'
import { Heading } from './components/Heading.js'

export function App() {
  return h('section', { class: 'app' },
    Heading({ text: 'Welcome' }),
  )
}
