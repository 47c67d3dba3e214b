// Package console serves the web console: pages that show the runs of a store, explain why a run
// does not progress, and offer actions. A program mounts it with one line,
//
//	http.Handle("/flows/", console.New(admin.New(client), console.Config{Prefix: "/flows/"}))
//
// and flowctl ui opens it on a store.
//
// Pages are rendered on the server with html/template; scripts and styles are plain embedded files.
// Reading and acting need no scripts. Scripts add live updates, keyboard shortcuts, zoom and
// dialogs. The Content-Security-Policy of each response restricts the browser to resources of this
// handler.
//
// All data and actions go through [admin.Service.As], so a page contains only what its reader may
// see, and offers only what the reader may do.
//
// Read [New] first, then page.go (how a page is served), run.go, timeline.go and painter.go (the
// page of a run), live.go (updates).
package console
