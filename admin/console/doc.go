// Package console serves the web console: pages on which people look at the runs of a store, see why one does not go
// on, and act. It is mounted with one line in a program of yours,
//
//	http.Handle("/flows/", console.New(admin.New(client), console.Config{Prefix: "/flows/"}))
//
// and flowctl ui opens it on a store.
//
// Pages are rendered here, by html/template; scripts and styles are plain files in the binary, and no page needs
// scripts to read or to act. Scripts add updates while somebody looks, keys, zoom and dialogs. The policy that each answer carries
// (Content-Security-Policy) lets a browser load and ask nothing but this handler.
//
// Everything goes through [admin.Service.As]: a page has what its reader may see, and offers what the reader may do.
//
// Read [New] first, then page.go (how a page comes to be), run.go, timeline.go and painter.go (the page of a run), live.go (updates).
package console
