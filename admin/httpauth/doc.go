// Package httpauth authenticates HTTP requests for the API and the console. A credential is a
// bearer token ([Bearer]), the cookie of a browser that has logged in with a token ([Session]), or
// a header of a trusted proxy ([Proxy]). [First] combines these methods. The method As of
// admin.Service applies the rights of a principal.
//
// A request with an invalid credential is refused even if it has another credential that is valid.
// Thus a credential that another party has added cannot cause a request to be accepted.
package httpauth
