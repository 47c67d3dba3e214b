// Package api is the HTTP API for operators: what an admin.Service can do, as JSON over HTTP, with the events of runs as
// server-sent events. [New] makes a handler of a service:
//
//	mux.Handle(api.Prefix, api.New(admin.New(client), api.Config{Auth: tokens}))
//
// Without Config.Auth it answers only to programs of the same machine. Errors are problems by RFC 9457: see admin.Problem.
// [OpenAPI] describes it, as the route /v1/openapi.json does; package admin/remote is a client with the same
// operations.
//
// Read handler.go first, which says in which order a request is judged, then operations.go.
package api
