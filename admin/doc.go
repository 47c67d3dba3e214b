// Package admin implements the operations with which operators find, read, follow and control the
// runs of a store. The command flowctl, the console and the HTTP API are interfaces to this package
// and make no decisions of their own. [New] returns a [Service] that uses a client of the store.
//
// Every result has a JSON form, which is also the output of the command: names in lower camel case,
// times as RFC 3339 in UTC, durations in milliseconds in fields whose names end with Ms.
// [ProblemOf] converts an error to a [Problem], which has a code, an exit code and a fix.
//
// A caller is a [Principal] with a role and optionally an owner. The owner limits the caller to its
// own runs. [Service.As] returns a service with these restrictions. Package api serves a service
// over HTTP, and package remote is a client with the same methods.
//
// Read [Service] first, then [Run] and [Action], then [Principal].
package admin
