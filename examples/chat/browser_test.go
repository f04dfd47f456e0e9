package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// window is a window of a real browser on the page.
type window struct {
	t   *testing.T
	ctx context.Context
}

// profile returns a folder for a browser's data. It is removed in several attempts, because
// helper processes of Chromium may still write to it when the browser has ended.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "thole-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		servertest.Eventually(t, 20*time.Second, "the browser's data is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

// browser starts Chromium with one window; each further call of open opens another one.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.UserDataDir(profile(t)), chromedp.Flag("disable-background-networking", true))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

func openWindow(t *testing.T, browser context.Context, url string) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as this context
		t.Fatalf("open a window: %v", err)
	}
	w := &window{t, ctx}
	w.do(chromedp.Navigate(url))
	w.until(`document.body.dataset.connected === 'yes'`)
	return w
}

func (w *window) do(actions ...chromedp.Action) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		w.t.Fatalf("browser: %v", err)
	}
}

// until waits for a condition in the page.
func (w *window) until(js string) {
	w.t.Helper()
	w.do(chromedp.Poll(js, nil, chromedp.WithPollingInterval(20*time.Millisecond)))
}

func (w *window) says(text string) {
	w.t.Helper()
	w.until(fmt.Sprintf(`document.querySelector('main').textContent.includes(%q)`, text))
}

func (w *window) ask(prompt string) {
	w.t.Helper()
	w.until(`document.querySelector('input').value === ''`) // what was asked before has its answer
	w.do(chromedp.SendKeys(`input[name=prompt]`, prompt+"\r"))
}

// lines returns the paragraphs of the conversation.
func (w *window) lines() []string {
	w.t.Helper()
	var lines []string
	w.do(chromedp.Evaluate(`[...document.querySelectorAll('main p')].map(p => p.textContent)`, &lines))
	return lines
}

func TestTwoWindowsShowOneConversation(t *testing.T) {
	effort.AllOnly(t)
	p := start(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "chat.db"))
	b := browser(t)
	one := openWindow(t, b, "http://"+p.addr)
	one.ask("roll")
	one.until(`document.getElementById('state').textContent === 'succeeded'`)
	var rolled int
	if lines := one.lines(); len(lines) != 3 {
		t.Fatalf("got %q, want the question, the tool and the answer", lines)
	} else if fmt.Sscanf(lines[2], "You rolled %d.", &rolled); lines[1] != fmt.Sprintf("dice … %d", rolled) {
		t.Errorf("got %q, want the tool with its result", lines)
	}

	var address string
	one.do(chromedp.Location(&address))
	two := openWindow(t, b, address)
	two.says("You rolled")

	one.ask("bet on red")
	two.until(`!document.getElementById('approve').hidden`)
	two.do(chromedp.Click("#approve"))
	one.says("Done.")
	one.until(`document.getElementById('approve').hidden`)

	two.ask("count")
	one.says("tick tock tick")
	one.do(chromedp.Click("#cancel"))
	for _, w := range []*window{one, two} {
		w.until(`document.getElementById('state').textContent === 'cancelled'`)
	}
	if first, second := one.lines(), two.lines(); !slices.Equal(first, second) || len(first) != 7 {
		t.Errorf("the windows show %q and %q, want the same seven lines", first, second)
	}
}

func TestWhatCouldNotBeSentStaysInItsFieldAndThePageSaysSo(t *testing.T) {
	effort.AllOnly(t)
	path := filepath.Join(t.TempDir(), "chat.db")
	p := start(t, "127.0.0.1:0", path)
	w := openWindow(t, browser(t), "http://"+p.addr)
	p.stop()
	w.ask("hello")
	w.until(`document.getElementById('state').textContent.startsWith('Not confirmed: ')`)
	w.until(`document.querySelector('input').value === 'hello'`)
	start(t, p.addr, path)
	w.do(chromedp.SendKeys(`input[name=prompt]`, "\r"))
	w.says("You said: hello.")
	w.until(`document.querySelector('input').value === ''`)
	if lines := w.lines(); len(lines) != 2 {
		t.Errorf("got %q, want the question once, and its answer", lines)
	}
}

func TestABrowserResumesWhenTheServerComesBack(t *testing.T) {
	effort.AllOnly(t)
	path := filepath.Join(t.TempDir(), "chat.db")
	p := start(t, "127.0.0.1:0", path)
	w := openWindow(t, browser(t), "http://"+p.addr)
	w.ask("hello")
	w.says("You said: hello.")
	w.ask("count")
	w.says("tick tock tick")
	p.stop()
	start(t, p.addr, path)
	w.until(`document.getElementById('state').textContent === 'cancelled'`) // by the shutdown; the page learned of it when it reconnected
	w.ask("goodbye")
	w.says("You said: goodbye.")
	w.until(`document.getElementById('state').textContent === 'succeeded'`)
	lines := w.lines()
	if len(lines) != 6 || strings.Count(strings.Join(lines, "\n"), "You said: hello.") != 1 {
		t.Errorf("got %q, want each line once", lines)
	}

	w.do(chromedp.Reload())
	w.says("You said: goodbye.")
	w.until(`document.getElementById('state').textContent === 'succeeded'`)
	if again := w.lines(); !slices.Equal(again, lines) {
		t.Errorf("after a reload: got %q, want %q", again, lines)
	}
}
