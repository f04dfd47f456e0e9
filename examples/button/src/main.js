import { App } from './App.js'
import { create } from './dom.js'

document.getElementById('app').replaceChildren(create(App(), document))
