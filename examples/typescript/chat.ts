// A chat from TypeScript: a thread, a message, a run, and its events while they
// come. All types are generated from the server's own description of its API:
//
//   npm ci
//   npx openapi-typescript http://127.0.0.1:8465/openapi.json -o thole.d.ts
//   npx tsc && node chat.js http://127.0.0.1:8465
import createClient from 'openapi-fetch'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { components, paths } from './thole.js'

type Event = components['schemas']['Event']

const server = process.argv[2] ?? 'http://127.0.0.1:8465'
const thole = createClient<paths>({ baseUrl: server })
const space = process.argv[3] ?? 'project:sample'

const made = await thole.POST('/v1/spaces/{space}/threads', {
  params: { path: { space } },
  body: { title: 'From TypeScript' },
})
if (!made.data) throw new Error(made.error.detail)
const thread = made.data.id

const posted = await thole.POST('/v1/spaces/{space}/threads/{thread}/messages', {
  params: { path: { space, thread } },
  body: { role: 'user', blocks: [{ type: 'text', content: 'Create a button component' }] },
})
if (!posted.data) throw new Error(posted.error.detail)

const watch = await thole.GET('/v1/spaces/{space}/threads/{thread}/events', {
  params: { path: { space, thread }, query: { after: '' } },
  headers: { Accept: 'text/event-stream' },
  parseAs: 'stream',
})
if (!watch.response.body) throw new Error('the server does not stream')

const started = await thole.POST('/v1/spaces/{space}/threads/{thread}/runs', {
  params: { path: { space, thread } },
  body: {},
})
if (!started.data) throw new Error(started.error.detail)
if (!('thread' in started.data)) throw new Error('the answer is a stream, which was not asked for')
const run = started.data.id

const frames = watch.response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
for await (const frame of frames) {
  const event: Event = JSON.parse(frame.data)
  if (event.source === 'app') {
    console.log('an application says', event.type)
    continue
  }
  switch (event.type) { // each case has the type of its data, which is null once it was redacted
    case 'message.added':
      if (event.data?.message) console.log(event.data.message.role + ':', event.data.message.blocks.map(b => b.content).join(' '))
      break
    case 'message.delta':
      if (event.position && event.data) process.stdout.write(event.data.text) // the durable piece; the broadcast came before
      break
    case 'tool.started':
      console.log(' ', event.data?.block.tool?.name, JSON.stringify(event.data?.block.tool?.input))
      break
    case 'run.waiting':
      if (event.data?.run === run) console.log('waits for', event.data.signal)
      break
    case 'run.finished':
      if (event.data?.run !== run) break
      console.log('\n' + event.data.status)
      process.exit(event.data.status === 'succeeded' ? 0 : 1)
  }
}
