// Package api is the HTTP API for operators. It provides the operations of an admin.Service as JSON
// over HTTP, and the events of runs as server-sent events. [New] returns a handler for a service:
//
//	mux.Handle(api.Prefix, api.New(admin.New(client), api.Config{Auth: tokens}))
//
// Without Config.Auth, the handler answers only programs on the same machine. Errors are problems of
// RFC 9457; see admin.Problem. [OpenAPI] returns the description of the API, which the handler also
// serves at /v1/openapi.json. Package admin/remote is a client with the same operations.
//
// Read handler.go first, which contains the order of the checks of a request, then operations.go.
package api
