package rest

import (
	"embed"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole"
)

//go:embed docs.html docs.js docs.css
var docsFiles embed.FS // read-only

// docsPolicy lets the page load its own files and the OpenAPI document, nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveDocs serves the page that shows the OpenAPI document, and its two files.
func (a *API) serveDocs(w http.ResponseWriter, r *http.Request) {
	h, name := w.Header(), r.PathValue("file")
	types := map[string]string{"docs.html": "text/html", "docs.js": "text/javascript", "docs.css": "text/css"}
	if name == "" {
		name = "docs.html"
	}
	body, err := docsFiles.ReadFile(name)
	if err != nil {
		a.problem(w, r, h.Get("X-Request-Id"), fmt.Errorf("%w: /docs/%.80s", thole.ErrNotFound, name))
		return
	}
	h.Set("Content-Type", types[name]+"; charset=utf-8")
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	w.Write(body)
}
