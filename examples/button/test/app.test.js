import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import test from 'node:test'
import { App } from '../src/App.js'

test('the app has a heading', () => {
  assert.ok(App().children.some((node) => node.tag === 'h1'))
})

const components = new URL('../src/components/', import.meta.url)
for (const file of readdirSync(components)) {
  const name = file.replace(/\.js$/, '')
  test(`${file} exports the component ${name}`, async () => {
    const module = await import(new URL(file, components))
    assert.equal(typeof module[name], 'function')
    assert.ok(module[name]({ text: 'x', label: 'x' }).tag)
  })
}
